-- Count the live tasks of each queue by what they wait for, tell the age of the oldest due one, which queues are paused
-- and which have limits; these are listed also when they are empty.
-- takes:   counted boolean (whether tasks are looked at at all)
-- returns: queue, ready, delayed, parked, leased, oldest_due_seconds, paused_at, paused_by, pause_reason,
--          max_running, rate, per_seconds, burst (of its limits)
-- locks:   none
-- index:   none: reads live once, if it is not large
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
     where :counted::boolean
     group by live.queue
)
select coalesce(depth.queue, paused.queue, limited.queue) as queue,
       coalesce(depth.ready, 0) as ready,
       coalesce(depth.delayed, 0) as delayed,
       coalesce(depth.parked, 0) as parked,
       coalesce(depth.leased, 0) as leased,
       depth.oldest_due_seconds,
       paused.paused_at,
       paused.actor as paused_by,
       paused.reason as pause_reason,
       limited.max_running,
       limited.rate,
       limited.per_seconds,
       limited.burst
  from depth
  full join wherry.paused
    on paused.queue = depth.queue
  full join wherry.limited
    on limited.queue = coalesce(depth.queue, paused.queue)
 order by queue
