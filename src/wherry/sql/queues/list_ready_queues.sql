-- Name the queues that have ready tasks and are not paused, by jumping from one to the next in the index.
-- takes:   nothing
-- returns: queue
-- locks:   none
-- index:   live_ready, paused_pkey
with recursive hop as (
    (select live.queue
       from wherry.live
      where live.state = 'ready'
      order by live.queue
      limit 1)
     union all
    select (select live.queue
              from wherry.live
             where live.state = 'ready'
               and live.queue > hop.queue
             order by live.queue
             limit 1)
      from hop
     where hop.queue is not null
)
select hop.queue
  from hop
 where hop.queue is not null
   and not exists (select from wherry.paused where paused.queue = hop.queue offset 0)
