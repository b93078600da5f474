-- Pause a schedule: it brings no task until it is resumed. One that is paused stays as it was.
-- takes:   name text, actor text, reason text
-- returns: known (whether there is such a schedule), paused (whether it was paused now)
-- locks:   the schedule
-- index:   schedule_pkey
with changed as (
    update wherry.schedule
       set paused_at = wherry.now(),
           paused_by = :actor::text,
           pause_reason = :reason::text,
           due_at = null
     where schedule.name = :name::text
       and schedule.paused_at is null
    returning schedule.name
)
select exists (select from wherry.schedule where schedule.name = :name::text) as known,
       exists (select from changed) as paused
