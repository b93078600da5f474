-- Tell how long the first ready task of these queues is due, the longest of each priority's, by jumping from one
-- priority to the next in the index, each stretch from where its queue's front says that it begins.
-- takes:   queues text[]
-- returns: queue, seconds; nothing of a queue without ready tasks
-- locks:   none
-- index:   live_ready, front_pkey
with recursive stretch as materialized (
    select asked.queue, each.high, each.low, each.start
      from unnest(:queues::text[]) as asked (queue)
      -- part: newest_front
     cross join lateral unnest(
           coalesce(newest.highs, '{100}'),
           coalesce(newest.lows, '{-100}'),
           coalesce(newest.starts, '{-9223372036854775808}')
     ) as each (high, low, start)
),
lane as (
    select stretch.queue, stretch.low, stretch.start, first.priority, first.run_after
      from stretch
     cross join lateral (
           select live.priority, live.run_after
             from wherry.live
            where live.queue = stretch.queue
              and live.state = 'ready'
              and live.priority between stretch.low and stretch.high
              and live.position >= stretch.start
            order by live.priority desc, live.position
            limit 1
     ) as first
     union all
    select lane.queue, lane.low, lane.start, next.priority, next.run_after
      from lane
     cross join lateral (
           select live.priority, live.run_after
             from wherry.live
            where live.queue = lane.queue
              and live.state = 'ready'
              and live.priority between lane.low and lane.priority - 1
              and live.position >= lane.start
            order by live.priority desc, live.position
            limit 1
     ) as next
)
select lane.queue, extract(epoch from wherry.now() - min(lane.run_after))::double precision as seconds
  from lane
 group by lane.queue
