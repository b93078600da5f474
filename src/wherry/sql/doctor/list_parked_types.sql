-- Count the tasks that wait for a worker that knows their type, at most so many; those of paused types do not.
-- takes:   most integer
-- returns: type, queues, tasks, oldest_seconds (since the oldest was due)
-- locks:   none
-- index:   live_parked_in_queue, paused_type_pkey
with waiting as materialized (
    select live.type, live.queue, live.run_after
      from wherry.live
     where live.state = 'parked'
       and not exists (
           select from wherry.paused_type
            where paused_type.type = live.type
              and paused_type.queue in ('', live.queue)
           offset 0
           )
     limit :most::integer
)
select waiting.type,
       array_agg(distinct waiting.queue) as queues,
       count(*) as tasks,
       extract(epoch from wherry.now() - min(waiting.run_after))::double precision as oldest_seconds
  from waiting
 group by waiting.type
 order by tasks desc, waiting.type
