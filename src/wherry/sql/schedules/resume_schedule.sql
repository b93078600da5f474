-- Resume a paused schedule. The times of the pause are passed over when it is looked at next, which is now if there
-- were any.
-- takes:   name text
-- returns: known (whether there is such a schedule), resumed (whether it was paused)
-- locks:   the schedule
-- index:   schedule_pkey
with changed as (
    update wherry.schedule
       set paused_at = null,
           paused_by = null,
           pause_reason = null,
           resumed_at = wherry.now(),
           due_at = schedule.next_at
     where schedule.name = :name::text
       and schedule.paused_at is not null
    returning schedule.name
)
select exists (select from wherry.schedule where schedule.name = :name::text) as known,
       exists (select from changed) as resumed
