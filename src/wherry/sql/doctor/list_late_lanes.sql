-- List the queues and priorities with ready tasks and how late the first of each is, the latest first, by
-- jumping from one to the next in the index; those of paused queues are left out.
-- takes:   most integer
-- returns: queue, priority, late_seconds
-- locks:   none
-- index:   live_ready, paused_pkey
with recursive lane (queue, priority, run_after) as (
    (select live.queue, live.priority, live.run_after
       from wherry.live
      where live.state = 'ready'
      order by live.queue, live.priority desc, live.position
      limit 1)
     union all
    (select next.queue, next.priority, next.run_after
       from lane
      cross join lateral (
            select step.queue, step.priority, step.run_after
              from (
                   (select 1 as turn, live.queue, live.priority, live.run_after
                      from wherry.live
                     where live.state = 'ready'
                       and live.queue = lane.queue
                       and live.priority < lane.priority
                     order by live.priority desc, live.position
                     limit 1)
                    union all
                   (select 2, live.queue, live.priority, live.run_after
                      from wherry.live
                     where live.state = 'ready'
                       and live.queue > lane.queue
                     order by live.queue, live.priority desc, live.position
                     limit 1)
              ) as step
             order by step.turn
             limit 1
      ) as next)
)
select lane.queue, lane.priority,
       extract(epoch from wherry.now() - lane.run_after)::double precision as late_seconds
  from lane
 where not exists (select from wherry.paused where paused.queue = lane.queue)
 order by late_seconds desc, lane.queue, lane.priority
 limit :most::integer
