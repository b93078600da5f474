-- Name the schedules that are due, the one that is due for longest first.
-- takes:   most integer
-- returns: name
-- locks:   none
-- index:   schedule_due
select schedule.name
  from wherry.schedule
 where schedule.due_at <= wherry.now()
 order by schedule.due_at
 limit :most::integer
