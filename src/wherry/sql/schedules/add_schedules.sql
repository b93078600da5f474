-- Add schedules, unless there are some of these names.
-- takes:   schedules json array of the columns of a schedule, each name once
-- returns: name (of those that are new)
-- locks:   none
-- index:   schedule_pkey
insert into wherry.schedule (
       name, cron, tz, type, queue, priority, max_attempts, timeout_seconds, ttl_seconds, tags, headers, retry, payload,
       missed, overlap, definition, by_hand, created_at, changed_at, next_at, due_at
)
select s.name, s.cron, s.tz, s.type, s.queue, s.priority, s.max_attempts, s.timeout_seconds, s.ttl_seconds, s.tags,
       s.headers::json, s.retry::json, s.payload::json, s.missed, s.overlap, s.definition, s.by_hand, wherry.now(),
       wherry.now(), s.next_at, s.next_at
  from json_to_recordset(:schedules::json) as s (
       name text, cron text, tz text, type text, queue text, priority smallint, max_attempts integer,
       timeout_seconds double precision, ttl_seconds double precision, tags text[], headers text, retry text, payload text,
       missed text, overlap text, definition text, by_hand boolean, next_at timestamptz
  )
 order by s.name
    on conflict (name) do nothing
returning schedule.name
