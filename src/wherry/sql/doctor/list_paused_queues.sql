-- List the paused queues, and count the ready tasks of each, at most so many.
-- takes:   most integer
-- returns: queue, tasks, paused_seconds (ago), actor, reason
-- locks:   none
-- index:   live_ready
select paused.queue,
       waiting.tasks,
       extract(epoch from wherry.now() - paused.paused_at)::double precision as paused_seconds,
       paused.actor,
       paused.reason
  from wherry.paused
 cross join lateral (
       select count(*) as tasks
         from (select
                 from wherry.live
                where live.queue = paused.queue
                  and live.state = 'ready'
                limit :most::integer) as ready
 ) as waiting
 order by waiting.tasks desc, paused.queue
