-- Tell how many times of each schedule had which outcome, ever.
-- takes:   nothing
-- returns: name, fired, missed_ticks, overlapped, paused_ticks, by_hand_runs
-- locks:   none
-- index:   schedule_pkey
select schedule.name, schedule.fired, schedule.missed_ticks, schedule.overlapped, schedule.paused_ticks,
       schedule.by_hand_runs
  from wherry.schedule
 order by schedule.name
