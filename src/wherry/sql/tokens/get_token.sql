-- Read what may be told of one token, by its id, else by its name: the one that is not revoked, else the last.
-- takes:   named text
-- returns: id, name, state (live, expired or revoked), rights, queues, created_at, created_by, expires_at,
--          revoked_at, last_used_at
-- locks:   none
-- index:   token_pkey; a name is looked for among all tokens
select token.id, token.name,
       case when token.revoked_at is not null then 'revoked'
            when token.expires_at <= wherry.now() then 'expired'
            else 'live'
             end as state,
       token.rights, token.queues, token.created_at, token.created_by, token.expires_at, token.revoked_at,
       token.last_used_at
  from wherry.token
 where token.id = :named::text
    or token.name = :named::text
 order by token.id = :named::text desc, token.revoked_at is null desc, token.created_at desc, token.id
 limit 1
