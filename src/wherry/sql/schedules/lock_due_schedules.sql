-- Lock schedules that are due, the one that is due for longest first, so that nobody else settles them meanwhile.
-- takes:   batch integer, name text (that one only; null: any)
-- returns: name
-- locks:   those schedules, skip locked
-- index:   schedule_due
select schedule.name
  from wherry.schedule
 where schedule.due_at <= wherry.now()
   and (:name::text is null or schedule.name = :name::text)
 order by schedule.due_at
 limit :batch::integer
   for update skip locked
