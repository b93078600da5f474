-- Tell in which queues tasks are, live or finished.
-- takes:   ids bigint[]
-- returns: id, queue; nothing for an id that names no task
-- locks:   none
-- index:   live_pkey, finished_pkey
select asked.id, found.queue
  from unnest(:ids::bigint[]) as asked (id)
 cross join lateral (
       (select live.queue from wherry.live where live.id = asked.id limit 1)
        union all
       (select finished.queue from wherry.finished where finished.id = asked.id limit 1)
        limit 1
  ) as found
