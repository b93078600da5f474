-- Count the tasks that wait for a worker that knows their type, at most so many; those of paused types do not. Types and
-- queues are named by jumping from one to the next in the index, and past all queues where the type is paused in each, so
-- that what is paused is not walked.
-- takes:   most integer
-- returns: type, queues, tasks, oldest_seconds (since the oldest was due)
-- locks:   none
-- index:   live_parked_in_queue, paused_type_pkey
with recursive place (type, queue, is_paused) as (
    select '', '', false
     union all
    select next.type, next.queue,
           exists (
               select from wherry.paused_type
                where paused_type.type = next.type
                  and paused_type.queue = ''
           )
      from place
     cross join lateral (
          (select live.type, live.queue
             from wherry.live
            where place.is_paused
              and live.state = 'parked'
              and live.type > place.type
            order by live.type, live.queue
            limit 1)
            union all
          (select live.type, live.queue
             from wherry.live
            where not place.is_paused
              and live.state = 'parked'
              and (live.type, live.queue) > (place.type, place.queue)
            order by live.type, live.queue
            limit 1)
     ) as next
),
waiting as materialized (
    select place.type, place.queue, found.run_after
      from place
     cross join lateral (
           select live.run_after
             from wherry.live
            where live.state = 'parked'
              and live.type = place.type
              and live.queue = place.queue
            limit :most::integer
     ) as found
     where not place.is_paused
       and not exists (
           select from wherry.paused_type
            where paused_type.type = place.type
              and paused_type.queue = place.queue
           offset 0
           )
     limit :most::integer
)
select waiting.type,
       array_agg(distinct waiting.queue) as queues,
       count(*) as tasks,
       extract(epoch from wherry.now() - min(waiting.run_after))::double precision as oldest_seconds
  from waiting
 group by waiting.type
 order by tasks desc, waiting.type
