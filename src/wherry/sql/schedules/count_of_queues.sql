-- Count the schedules of queues.
-- takes:   queues text[]
-- returns: queue, schedules; nothing of a queue that has none
-- locks:   none
-- index:   none: schedules are made seldom
select schedule.queue, count(*) as schedules
  from wherry.schedule
 where schedule.queue = any (:queues::text[])
 group by schedule.queue
