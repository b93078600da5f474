-- Say that workers are alive, what they serve and which types they know.
-- takes:   beats json array of (instance, name, host, pid (null: not known), queues (null: all), types (null:
--          any), slots, version, memory_bytes (null: not known), deaf_seconds (null: it hears)), each instance once;
--          alive_seconds double precision
-- returns: instance, directive (none, drain, stop)
-- locks:   the workers' own rows
-- index:   worker_pkey
insert into wherry.worker (
       instance, name, host, pid, queues, types, slots, version, memory_bytes, deaf_since, started_at, beat_at,
       expires_at
)
select b.instance, b.name, b.host, b.pid, b.queues, b.types, b.slots, b.version, b.memory_bytes,
       wherry.now() - b.deaf_seconds * interval '1 second', wherry.now(), wherry.now(),
       wherry.now() + :alive_seconds::double precision * interval '1 second'
  from json_to_recordset(:beats::json) as b (
       instance uuid, name text, host text, pid integer, queues text[], types text[], slots integer, version text,
       memory_bytes bigint, deaf_seconds double precision
  )
 order by b.instance
    on conflict (instance) do update
   set beat_at = excluded.beat_at,
       expires_at = excluded.expires_at,
       queues = excluded.queues,
       types = excluded.types,
       slots = excluded.slots,
       version = excluded.version,
       memory_bytes = excluded.memory_bytes,
       deaf_since = excluded.deaf_since
returning worker.instance::text as instance, worker.directive
