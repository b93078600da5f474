-- List schedules by name.
-- takes:   name text (null: all)
-- returns: name, cron, tz, type, queue, priority, max_attempts, timeout_seconds, ttl_seconds, tags, headers_text,
--          retry_text, payload_text, missed, overlap, by_hand, declared_by (how many live workers declare it), created_at,
--          changed_at, shown_next_at (null if it brings no task), last_at, last_fired_at, last_task_id, fired, missed_ticks,
--          overlapped, paused_ticks, by_hand_runs, trouble, paused_at, paused_by, pause_reason
-- locks:   none
-- index:   schedule_pkey, tick_is_once
select schedule.name, schedule.cron, schedule.tz, schedule.type, schedule.queue, schedule.priority::integer,
       schedule.max_attempts, schedule.timeout_seconds, schedule.ttl_seconds, schedule.tags,
       coalesce(schedule.headers::text, '{}') as headers_text, schedule.retry::text as retry_text,
       schedule.payload::text as payload_text, schedule.missed, schedule.overlap, schedule.by_hand, declarers.declared_by,
       schedule.created_at, schedule.changed_at,
       case when schedule.paused_at is null and (schedule.by_hand or declarers.declared_by > 0)
            then schedule.next_at
             end as shown_next_at,
       schedule.last_at, newest.last_fired_at, newest.last_task_id, schedule.fired, schedule.missed_ticks,
       schedule.overlapped, schedule.paused_ticks, schedule.by_hand_runs, schedule.trouble, schedule.paused_at,
       schedule.paused_by, schedule.pause_reason
  from wherry.schedule
 cross join lateral (
       select count(*) as declared_by
         from wherry.declaration
         join wherry.worker
           on worker.instance = declaration.instance
        where declaration.schedule = schedule.name
          and worker.expires_at > wherry.now()
  ) as declarers
  left join lateral (
       select tick.planned_at as last_fired_at, tick.task_id as last_task_id
         from wherry.tick
        where tick.schedule = schedule.name
          and tick.task_id is not null
        order by tick.planned_at desc
        limit 1
  ) as newest
    on true
 where :name::text is null
    or schedule.name = :name::text
 order by schedule.name
