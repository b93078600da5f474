-- Count the live tasks of each queue by what they wait for, tell the age of the oldest due one, and which
-- queues are paused; a paused one is listed also when it is empty.
-- takes:   nothing
-- returns: queue, ready, delayed, parked, leased, oldest_due_seconds, paused_at, paused_by, pause_reason
-- locks:   none
-- index:   none: reads live once, for people
with depth as (
    select live.queue,
           count(*) filter (where live.state = 'ready') as ready,
           count(*) filter (where live.state = 'delayed') as delayed,
           count(*) filter (where live.state = 'parked') as parked,
           count(*) filter (where live.state = 'leased') as leased,
           extract(epoch from wherry.now() - min(live.run_after) filter (
               where live.state = 'ready' or (live.state = 'delayed' and live.run_after <= wherry.now())
           ))::double precision as oldest_due_seconds
      from wherry.live
     group by live.queue
)
select coalesce(depth.queue, paused.queue) as queue,
       coalesce(depth.ready, 0) as ready,
       coalesce(depth.delayed, 0) as delayed,
       coalesce(depth.parked, 0) as parked,
       coalesce(depth.leased, 0) as leased,
       depth.oldest_due_seconds,
       paused.paused_at,
       paused.actor as paused_by,
       paused.reason as pause_reason
  from depth
  full join wherry.paused
    on paused.queue = depth.queue
 order by queue
