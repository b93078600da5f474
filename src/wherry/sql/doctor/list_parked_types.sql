-- Count the tasks that wait for a worker that knows their type, at most so many.
-- takes:   most integer
-- returns: type, queues, tasks, oldest_seconds (since the oldest was due)
-- locks:   none
-- index:   live_parked
with waiting as materialized (
    select live.type, live.queue, live.run_after
      from wherry.live
     where live.state = 'parked'
     limit :most::integer
)
select waiting.type,
       array_agg(distinct waiting.queue) as queues,
       count(*) as tasks,
       extract(epoch from wherry.now() - min(waiting.run_after))::double precision as oldest_seconds
  from waiting
 group by waiting.type
 order by tasks desc, waiting.type
