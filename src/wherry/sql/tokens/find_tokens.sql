-- Read what is needed to judge tokens that were shown to a server.
-- takes:   ids text[]
-- returns: id, name, hash, rights, queues, is_live, remaining_seconds (null: nothing ends it), note_use
-- locks:   none
-- index:   token_pkey
select token.id, token.name, token.hash, token.rights, token.queues,
       token.revoked_at is null and (token.expires_at is null or token.expires_at > wherry.now()) as is_live,
       extract(epoch from token.expires_at - wherry.now())::double precision as remaining_seconds,
       token.last_used_at is null or token.last_used_at < wherry.now() - interval '1 minute' as note_use
  from wherry.token
 where token.id = any (:ids::text[])
