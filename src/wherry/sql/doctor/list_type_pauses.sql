-- List the pauses of types, and count the tasks that each has set aside, at most so many.
-- takes:   most integer
-- returns: type, queue (empty: in all of them), tasks, paused_seconds (ago), actor, reason
-- locks:   none
-- index:   live_parked_in_queue
select paused_type.type,
       paused_type.queue,
       aside.tasks,
       extract(epoch from wherry.now() - paused_type.paused_at)::double precision as paused_seconds,
       paused_type.actor,
       paused_type.reason
  from wherry.paused_type
 cross join lateral (
       select count(*) as tasks
         from (
              (select
                 from wherry.live
                where paused_type.queue = ''
                  and live.state = 'parked'
                  and live.type = paused_type.type
                limit :most::integer)
                union all
              -- No task has an empty queue.
              (select
                 from wherry.live
                where live.state = 'parked'
                  and live.type = paused_type.type
                  and live.queue = paused_type.queue
                limit :most::integer)
              ) as parked
 ) as aside
 order by aside.tasks desc, paused_type.type, paused_type.queue
