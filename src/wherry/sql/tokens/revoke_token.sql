-- Revoke a token, by its id, else by its name. The row stays, for the audit.
-- takes:   named text
-- returns: id; nothing where none that is named so is left to be revoked
-- locks:   the token
-- index:   token_pkey, token_by_name
with named as materialized (
    select token.id
      from wherry.token
     where token.revoked_at is null
       and (token.id = :named::text or token.name = :named::text)
     order by token.id = :named::text desc
     limit 1
       for update
)
update wherry.token
   set revoked_at = wherry.now()
  from named
 where token.id = named.id
   and token.revoked_at is null
returning token.id
