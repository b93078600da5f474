-- Count the live tasks of each queue by what they wait for, and tell the age of the oldest due one.
-- takes:   nothing
-- returns: queue, ready, delayed, parked, leased, oldest_due_seconds
-- locks:   none
-- index:   none: reads live once, for people
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
 order by live.queue
