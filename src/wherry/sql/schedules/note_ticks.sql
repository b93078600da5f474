-- Remember what becomes of planned times, unless it is remembered already: then somebody has seen to them.
-- takes:   ticks json array of (schedule, planned_at, until_at, n, outcome, task_id, reason, extends (the planned time
--          of the tick that this one follows without a gap, and is added to; null: it is one of its own)), each
--          schedule and planned time once
-- returns: schedule, planned_at (of those that are new)
-- locks:   the ticks that are added to
-- index:   tick_is_once
with asked as materialized (
    select a.schedule, a.planned_at, a.until_at, a.n, a.outcome, a.task_id, a.reason, a.extends
      from json_to_recordset(:ticks::json) as a (
           schedule text, planned_at timestamptz, until_at timestamptz, n bigint, outcome text, task_id bigint,
           reason text, extends timestamptz
      )
),
extended as (
    update wherry.tick
       set until_at = asked.until_at,
           n = tick.n + asked.n,
           at = wherry.now()
      from asked
     where asked.extends is not null
       and tick.schedule = asked.schedule
       and tick.planned_at = asked.extends
       and not tick.by_hand
)
insert into wherry.tick (schedule, planned_at, by_hand, until_at, n, outcome, task_id, at, reason)
select asked.schedule, asked.planned_at, false, asked.until_at, asked.n, asked.outcome, asked.task_id, wherry.now(),
       asked.reason
  from asked
 where asked.extends is null
 order by asked.schedule, asked.planned_at
    on conflict (schedule, planned_at, by_hand) do nothing
returning tick.schedule, tick.planned_at
