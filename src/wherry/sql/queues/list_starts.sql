-- Tell of queues whose rate is limited when their next task may start. Each is looked at from its newest front on.
-- takes:   queues text[] (null: all)
-- returns: queue, starts_in (seconds, negative if it has passed; null if no task is ready, or the queue is paused)
-- locks:   none
-- index:   limited_pkey, live_ready, front_pkey, paused_pkey
select asked.queue,
       case when not exists (select from wherry.paused where paused.queue = asked.queue offset 0)
             and exists (
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
            then (1 - asked.credit) * asked.per_seconds / asked.rate
                 - extract(epoch from wherry.now() - asked.noted_at)::double precision
             end as starts_in
  from wherry.limited as asked
  -- part: newest_front
 where asked.rate is not null
   and (:queues::text[] is null or asked.queue = any (:queues::text[]))
