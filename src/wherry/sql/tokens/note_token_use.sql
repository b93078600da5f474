-- Note that tokens were used, at most once a minute each.
-- takes:   ids text[]
-- returns: id (of those that were noted)
-- locks:   the tokens, skip locked: nobody may have to wait for a note
-- index:   token_pkey
with used as materialized (
    select token.id
      from wherry.token
     where token.id = any (:ids::text[])
       and (token.last_used_at is null or token.last_used_at < wherry.now() - interval '1 minute')
     order by token.id
       for update skip locked
)
update wherry.token
   set last_used_at = wherry.now()
  from used
 where token.id = used.id
returning token.id
