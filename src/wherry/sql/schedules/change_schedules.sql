-- Put other definitions in place of those that stand under their names. Counts, pauses and ticks stay.
-- takes:   schedules json array of the columns of a schedule, with former and next_at, each name once
-- returns: name
-- locks:   those schedules, which are ours
-- index:   schedule_pkey
update wherry.schedule
   set cron = s.cron,
       tz = s.tz,
       type = s.type,
       queue = s.queue,
       priority = s.priority,
       max_attempts = s.max_attempts,
       timeout_seconds = s.timeout_seconds,
       ttl_seconds = s.ttl_seconds,
       tags = s.tags,
       headers = s.headers::json,
       retry = s.retry::json,
       payload = s.payload::json,
       missed = s.missed,
       overlap = s.overlap,
       definition = s.definition,
       former = s.former,
       changed_at = wherry.now(),
       next_at = s.next_at,
       due_at = case when schedule.paused_at is null then s.next_at end,
       trouble = null
  from json_to_recordset(:schedules::json) as s (
       name text, cron text, tz text, type text, queue text, priority smallint, max_attempts integer,
       timeout_seconds double precision, ttl_seconds double precision, tags text[], headers text, retry text, payload text,
       missed text, overlap text, definition text, former text[], next_at timestamptz
  )
 where schedule.name = s.name
returning schedule.name
