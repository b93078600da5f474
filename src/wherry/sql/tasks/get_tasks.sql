-- Read tasks by id, wherever they are.
-- takes:   ids bigint[]
-- returns: a Task
-- locks:   none
-- index:   live_pkey, lease_pkey, finished_pkey, payload_pkey
select live.id, live.queue, live.type,
       coalesce(
           live.payload::text,
           (
               select convert_from(string_agg(p.piece, '' order by p.nth), 'UTF8')
                 from wherry.payload p
                where p.task_id = live.id
                  and p.queue = live.queue
           )
       ) as payload_text,
       case when live.state = 'leased' then 'leased' else 'queued' end as state, live.priority, live.attempts,
       live.max_attempts, live.token, live.run_after, live.created_at, live.leased_at as started_at,
       null::timestamptz as finished_at, lease.worker, lease.expires_at as lease_expires_at, live.key,
       live.tags, live.headers::text as headers_text, live.retry::text as retry_text, live.timeout_seconds,
       null::text as result_text, live.cancel_reason as reason, live.last_error as error, live.cancel_requested_at
  from wherry.live
  left join lateral (
       select l.worker, l.expires_at
         from wherry.lease l
        where live.state = 'leased'
          and l.lease_id = live.lease_id
          and (not l.split or live.id = any (l.task_ids))
        limit 1
  ) as lease on true
 where live.id = any (:ids::bigint[])
 union all
select finished.id, finished.queue, finished.type,
       coalesce(
           finished.payload::text,
           (
               select convert_from(string_agg(p.piece, '' order by p.nth), 'UTF8')
                 from wherry.payload p
                where p.task_id = finished.id
                  and p.queue = finished.queue
           )
       ) as payload_text,
       finished.state, finished.priority, finished.attempts, finished.max_attempts, finished.token, finished.run_after,
       finished.created_at, finished.leased_at as started_at, finished.finished_at, finished.worker,
       null::timestamptz as lease_expires_at, finished.key, finished.tags, finished.headers::text as headers_text,
       finished.retry::text as retry_text, finished.timeout_seconds, finished.result::text as result_text,
       finished.reason, finished.last_error as error, null::timestamptz as cancel_requested_at
  from wherry.finished
 where finished.id = any (:ids::bigint[])
