-- Say that a worker is alive, what it serves and which types it knows.
-- takes:   instance uuid, name text, host text, pid integer, queues text[] (null: all), types text[],
--          alive_seconds double precision
-- returns: nothing
-- locks:   the worker's own row
-- index:   worker_pkey
insert into wherry.worker (instance, name, host, pid, queues, types, started_at, beat_at, expires_at)
values (
       :instance::uuid, :name::text, :host::text, :pid::integer, :queues::text[], :types::text[],
       wherry.now(), wherry.now(), wherry.now() + :alive_seconds::double precision * interval '1 second'
)
    on conflict (instance) do update
   set beat_at = excluded.beat_at,
       expires_at = excluded.expires_at,
       queues = excluded.queues,
       types = excluded.types
