-- Name the queues that have ready tasks, are not paused, and have room within their limits. Those that have a front are
-- looked at from there on; the others by jumping from one to the next in the index, between every two of those that
-- have one.
-- takes:   nothing
-- returns: queue
-- locks:   none
-- index:   live_ready, front_pkey, paused_pkey, limited_pkey
with recursive fronted as materialized (
    select distinct on (front.queue)
           front.queue, front.highs, front.lows, front.starts
      from wherry.front
     order by front.queue, front.position desc
),
gap as (
    select coalesce(lag(fronted.queue) over (order by fronted.queue), '') as after_queue, fronted.queue as before_queue
      from fronted
     union all
    select coalesce(max(fronted.queue), ''), null
      from fronted
),
hop as (
    select gap.after_queue as queue, gap.before_queue
      from gap
     union all
    select case when hop.before_queue is null
                then (select live.queue
                        from wherry.live
                       where live.state = 'ready'
                         and live.queue > hop.queue
                       order by live.queue
                       limit 1)
                else (select live.queue
                        from wherry.live
                       where live.state = 'ready'
                         and live.queue > hop.queue
                         and live.queue < hop.before_queue
                       order by live.queue
                       limit 1)
                 end,
           hop.before_queue
      from hop
     where hop.queue is not null
),
ready as (
    select hop.queue
      from hop
     where hop.queue is not null
       and not exists (select from gap where gap.after_queue = hop.queue offset 0)
     union all
    select fronted.queue
      from fronted
     where exists (
           select from unnest(fronted.highs, fronted.lows, fronted.starts) as stretch (high, low, start)
            cross join lateral (
                  select live.id
                    from wherry.live
                   where live.queue = fronted.queue
                     and live.state = 'ready'
                     and live.priority between stretch.low and stretch.high
                     and live.position >= stretch.start
                   order by live.priority desc, live.position
                   limit 1
            ) as found
           offset 0
           )
)
select ready.queue
  from ready
 where not exists (select from wherry.paused where paused.queue = ready.queue offset 0)
   -- Where no queue has limits, none is asked for its own.
   and (not exists (select from wherry.limited offset 0)
        or not exists (select from wherry.limited where limited.queue = ready.queue and wherry.is_full(limited) offset 0))
