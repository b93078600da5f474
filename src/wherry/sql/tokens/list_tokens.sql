-- List tokens, newest first; never their hashes.
-- takes:   everything boolean (with those that are over), limit_tokens integer
-- returns: id, name, state (live, expired or revoked), rights, queues, created_at, created_by, expires_at,
--          revoked_at, last_used_at
-- locks:   none
-- index:   none: there are few
select token.id, token.name,
       case when token.revoked_at is not null then 'revoked'
            when token.expires_at <= wherry.now() then 'expired'
            else 'live'
             end as state,
       token.rights, token.queues, token.created_at, token.created_by, token.expires_at, token.revoked_at,
       token.last_used_at
  from wherry.token
 where :everything::boolean
    or (token.revoked_at is null and (token.expires_at is null or token.expires_at > wherry.now()))
 order by token.created_at desc, token.id
 limit :limit_tokens::integer
