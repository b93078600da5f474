-- List the ticks of a schedule, and what was run by hand, newest first.
-- takes:   name text, limit_rows integer, before timestamptz (null: from the newest on)
-- returns: planned_at, until_at, n, outcome, at, task_id, reason, state (of its task)
-- locks:   none
-- index:   tick_is_once, live_pkey, finished_pkey
select tick.planned_at, tick.until_at, tick.n, tick.outcome, tick.at, tick.task_id, tick.reason, found.state
  from wherry.tick
  left join lateral (
       (
           select case when live.state = 'leased' then 'leased' else 'queued' end as state
             from wherry.live
            where live.id = tick.task_id
            limit 1
       )
        union all
       (
           select finished.state
             from wherry.finished
            where finished.id = tick.task_id
            limit 1
       )
        limit 1
  ) as found
    on true
 where tick.schedule = :name::text
   and (:before::timestamptz is null or tick.planned_at < :before::timestamptz)
 order by tick.planned_at desc, tick.by_hand desc
 limit :limit_rows::integer
