-- What a worker is: how many slots it has, of which version it is, and how much memory it holds.
-- Locks: wherry.worker, access exclusive, for a moment: it holds one row a worker, and nothing in it is rewritten.

-- Null: not known, as of who works through a server, or runs an older version.
alter table wherry.worker
    add column slots integer,
    add column version text,
    add column memory_bytes bigint;
