-- Store a token, unless a token that is not revoked has its name.
-- takes:   id text, name text, hash bytea, rights text[], queues text[],
--          lasts_seconds double precision (null: until it is revoked), created_by text
-- returns: id; nothing where the id or the name is taken
-- locks:   none
-- index:   token_pkey, token_by_name
insert into wherry.token (id, name, hash, rights, queues, created_at, created_by, expires_at)
values (
       :id::text, :name::text, :hash::bytea, :rights::text[], :queues::text[], wherry.now(), :created_by::text,
       wherry.now() + :lasts_seconds::double precision * interval '1 second'
)
    on conflict do nothing
returning token.id
