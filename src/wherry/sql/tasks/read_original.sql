-- Read what a copy takes over from a task, wherever that is.
-- takes:   id bigint
-- returns: queue, type, payload_text, priority, max_attempts, retry_text, timeout_seconds, ttl_seconds, tags,
--          headers_text, state
-- locks:   none
-- index:   live_pkey, finished_pkey, payload_pkey
select live.queue, live.type,
       coalesce(
           live.payload::text,
           (
               select convert_from(string_agg(p.piece, '' order by p.nth), 'UTF8')
                 from wherry.payload p
                where p.task_id = live.id
                  and p.queue = live.queue
           )
       ) as payload_text,
       live.priority, live.max_attempts, live.retry::text as retry_text, live.timeout_seconds, live.ttl_seconds,
       live.tags, live.headers::text as headers_text,
       case when live.state = 'leased' then 'leased' else 'queued' end as state
  from wherry.live
 where live.id = :id::bigint
 union all
select finished.queue, finished.type,
       coalesce(
           finished.payload::text,
           (
               select convert_from(string_agg(p.piece, '' order by p.nth), 'UTF8')
                 from wherry.payload p
                where p.task_id = finished.id
                  and p.queue = finished.queue
           )
       ) as payload_text,
       finished.priority, finished.max_attempts, finished.retry::text as retry_text, finished.timeout_seconds,
       finished.ttl_seconds, finished.tags, finished.headers::text as headers_text, finished.state
  from wherry.finished
 where finished.id = :id::bigint
