-- Read the limits of the first queues that have any, and whether their rate lets a task start now.
-- takes:   most integer
-- returns: queue, max_running, starts_per_second, is_rate_reached (null: no rate), limited (how many queues there are)
-- locks:   none
-- index:   limited_pkey; a row for each limited queue is counted, and no task looked at
select limited.queue,
       limited.max_running,
       limited.rate / limited.per_seconds as starts_per_second,
       wherry.credit(limited) < 1 as is_rate_reached,
       (select count(*) from wherry.limited) as limited
  from wherry.limited
 order by limited.queue
 limit :most::integer
