-- List queued and leased tasks, newest first.
-- takes:   states text[] (of ready, delayed, parked, leased), queue, type, tag, error (a part of the last
--          error, any case), older_than_seconds, after bigint (the last id of the page before), limit_tasks,
--          limit_bytes bigint (no more are returned once their payloads and results have as many)
-- returns: a Task and has_more
-- locks:   none
-- index:   live_pkey, lease_pkey
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
          where live.state = any (:states::text[])
            and (:queue::text is null or live.queue = :queue::text)
            and (:type::text is null or live.type = :type::text)
            and (:tag::text is null or live.tags @> array[:tag::text])
            and (:error::text is null or position(lower(:error::text) in lower(live.last_error)) > 0)
            and (:after::bigint is null or live.id < :after::bigint)
            and (:older_than_seconds::double precision is null
                 or live.created_at < wherry.now() - :older_than_seconds::double precision * interval '1 second')
          order by live.id desc
          limit :limit_tasks::integer
-- part: fitting
