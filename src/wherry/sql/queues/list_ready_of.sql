-- Tell which of these queues have ready tasks, are not paused, and have room within their limits. Each is looked at
-- from its newest front on.
-- takes:   queues text[]
-- returns: queue
-- locks:   none
-- index:   live_ready, front_pkey, paused_pkey, limited_pkey
select asked.queue
  from unnest(:queues::text[]) with ordinality as asked (queue, ord)
  -- part: newest_front
 where exists (
       select from unnest(
              coalesce(newest.highs, '{100}'),
              coalesce(newest.lows, '{-100}'),
              coalesce(newest.starts, '{-9223372036854775808}')
              ) as stretch (high, low, start)
        cross join lateral (
              select live.id
                from wherry.live
               where live.queue = asked.queue
                 and live.state = 'ready'
                 and live.priority between stretch.low and stretch.high
                 and live.position >= stretch.start
               order by live.priority desc, live.position
               limit 1
        ) as found
       offset 0
       )
   and not exists (select from wherry.paused where paused.queue = asked.queue offset 0)
   -- Where no queue has limits, none is asked for its own.
   and (not exists (select from wherry.limited offset 0)
        or not exists (select from wherry.limited where limited.queue = asked.queue and wherry.is_full(limited) offset 0))
 order by asked.ord
