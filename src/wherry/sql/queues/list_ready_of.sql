-- Tell which of these queues have ready tasks and are not paused.
-- takes:   queues text[]
-- returns: queue
-- locks:   none
-- index:   live_ready, paused_pkey
select asked.queue
  from unnest(:queues::text[]) with ordinality as asked (queue, ord)
 where exists (
       select from wherry.live
        where live.queue = asked.queue
          and live.state = 'ready'
       offset 0
       )
   and not exists (select from wherry.paused where paused.queue = asked.queue offset 0)
 order by asked.ord
