-- List the ticks of a schedule, and what was run by hand, newest first.
-- takes:   name text, limit_rows integer, before timestamptz (null: from the newest on)
-- returns: planned_at, until_at, n, outcome, at, task_id, reason, state (of its task)
-- locks:   none
-- index:   tick_is_once, live_pkey, finished_pkey
with page as materialized (
    select tick.planned_at, tick.by_hand, tick.until_at, tick.n, tick.outcome, tick.at, tick.task_id, tick.reason
      from wherry.tick
     where tick.schedule = :name::text
       and (:before::timestamptz is null or tick.planned_at < :before::timestamptz)
     order by tick.planned_at desc, tick.by_hand desc
     limit :limit_rows::integer
),
-- All at once: for one after the other, each would be looked for in each day.
found as materialized (
    select live.id,
           case when live.state = 'leased' then 'leased' else 'queued' end as state
      from wherry.live
     where live.id = any (array(select page.task_id from page))
     union all
    select finished.id, finished.state
      from wherry.finished
     where finished.id = any (array(select page.task_id from page))
)
select page.planned_at, page.until_at, page.n, page.outcome, page.at, page.task_id, page.reason, found.state
  from page
  left join found
    on found.id = page.task_id
 order by page.planned_at desc, page.by_hand desc
