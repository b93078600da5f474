-- Read schedules with all that a scheduler has to know of them; it has locked them by a statement before this one, so
-- that it sees what whoever had them last has done.
-- takes:   names text[]
-- returns: name, cron, tz, type, queue, priority, max_attempts, timeout_seconds, ttl_seconds, tags, headers_text,
--          retry_text, payload_text, missed, overlap, next_at, last_at, resumed_at, is_wanted (whether it may bring tasks),
--          is_paused, running (those of its tasks that have not ended), passed_at, passed_outcome (of the newest tick, if
--          it brought no task; else null), now
-- locks:   none
-- index:   schedule_pkey, declaration_pkey, worker_pkey, live_pkey, tick_is_once
select schedule.name, schedule.cron, schedule.tz, schedule.type, schedule.queue, schedule.priority, schedule.max_attempts,
       schedule.timeout_seconds, schedule.ttl_seconds, schedule.tags, schedule.headers::text as headers_text,
       schedule.retry::text as retry_text, schedule.payload::text as payload_text, schedule.missed,
       schedule.overlap, schedule.next_at, schedule.last_at, schedule.resumed_at,
       schedule.by_hand or exists (
           select from wherry.declaration
             join wherry.worker
               on worker.instance = declaration.instance
            where declaration.schedule = schedule.name
              and worker.expires_at > wherry.now()
       ) as is_wanted,
       schedule.paused_at is not null as is_paused,
       array(
           select live.id
             from wherry.live
            where live.id = any (schedule.running)
            order by live.id
       ) as running,
       newest.planned_at as passed_at,
       newest.outcome as passed_outcome,
       wherry.now() as now
  from wherry.schedule
  left join lateral (
       select tick.planned_at, tick.until_at, tick.outcome, tick.task_id
         from wherry.tick
        where tick.schedule = schedule.name
          and not tick.by_hand
        order by tick.planned_at desc
        limit 1
  ) as newest
    on newest.until_at = schedule.last_at
   and newest.task_id is null
 where schedule.name = any (:names::text[])
 order by schedule.name
