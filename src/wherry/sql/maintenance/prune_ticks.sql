-- Forget one batch of ticks that are older than any finished task is kept.
-- takes:   batch integer
-- returns: schedule, planned_at
-- locks:   those ticks, skip locked
-- index:   tick_by_time, tick_is_once
with old as materialized (
    select tick.schedule, tick.planned_at, tick.by_hand
      from wherry.tick
     where tick.at < wherry.now() - (
           select greatest(settings.keep_succeeded, settings.keep_failed) from wherry.settings
           )
     order by tick.at
     limit :batch::integer
       for update skip locked
)
delete from wherry.tick
 using old
 where tick.schedule = old.schedule
   and tick.planned_at = old.planned_at
   and tick.by_hand = old.by_hand
returning tick.schedule, tick.planned_at
