-- List the workers that were heard of in the last day, by name.
-- takes:   nothing
-- returns: instance, name, host, pid, queues, types, started_at, beat_at, alive, directive, directed_by,
--          directive_reason, slots, version, memory_bytes, deaf_since
-- locks:   none
-- index:   none: the table holds one row a worker
select worker.instance::text as instance, worker.name, worker.host, worker.pid, worker.queues, worker.types,
       worker.started_at, worker.beat_at, worker.expires_at > wherry.now() as alive, worker.directive,
       worker.directed_by, worker.directive_reason, worker.slots, worker.version, worker.memory_bytes,
       worker.deaf_since
  from wherry.worker
 where worker.beat_at > wherry.now() - interval '1 day'
 order by worker.name, worker.started_at, worker.instance
