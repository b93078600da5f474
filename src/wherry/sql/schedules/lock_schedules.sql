-- Lock schedules by name; one that a scheduler is at is waited for.
-- takes:   names text[]
-- returns: name; nothing of a name that no schedule has
-- locks:   those schedules
-- index:   schedule_pkey
select schedule.name
  from wherry.schedule
 where schedule.name = any (:names::text[])
 order by schedule.name
   for update
