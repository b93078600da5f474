-- List queued and leased tasks, newest first.
-- takes:   states text[] (of ready, delayed, parked, leased), queue, type, tag, key, worker, error (a part of
--          the last error, any case), payload (a JSON object that it holds), older_than_seconds, created_after,
--          created_before, least bigint (the lowest id), after bigint (the last id of the page before),
--          limit_tasks, limit_bytes bigint (no more are returned once their payloads and results have as many)
-- returns: a Task and has_more
-- locks:   none
-- index:   live_pkey, lease_pkey, payload_pkey
-- part: shown
         select live.id, live.queue, live.type, live.payload,
                case when live.state = 'leased' then 'leased' else 'queued' end as state, live.priority, live.attempts,
                live.max_attempts, live.token, live.run_after, live.created_at, live.leased_at as started_at,
                null::timestamptz as finished_at, lease.worker, lease.expires_at as lease_expires_at, live.key,
                live.tags, live.headers, live.retry, live.timeout_seconds,
                null::json as result, live.cancel_reason as reason, live.last_error as error, live.cancel_requested_at
           from wherry.live
           left join lateral (
                select l.worker, l.expires_at
                  from wherry.lease l
                 where live.state = 'leased'
                   and l.lease_id = live.lease_id
                   and (not l.split or live.id = any (l.task_ids))
                 limit 1
           ) as lease on true
          -- part: wanted_live
          order by live.id desc
          limit :limit_tasks::integer
-- part: fitting
