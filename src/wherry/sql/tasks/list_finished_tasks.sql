-- List finished tasks, newest first.
-- takes:   states text[] (of succeeded, failed, dead, canceled), queue, type, tag, key, worker, error (a part
--          of the last error, any case), payload (a JSON object that it holds), older_than_seconds (since it
--          finished), created_after, created_before, finished_after, finished_before, fingerprint, least bigint (the lowest
--          id), after bigint (the last id of the page before), limit_tasks, limit_bytes bigint (no more are
--          returned once their payloads and results have as many)
-- returns: a Task and has_more
-- locks:   none
-- index:   finished_pkey, payload_pkey
-- part: shown
         select finished.id, finished.queue, finished.type, finished.payload, finished.state, finished.priority,
                finished.attempts, finished.max_attempts, finished.token, finished.run_after, finished.created_at,
                finished.leased_at as started_at, finished.finished_at, finished.worker,
                null::timestamptz as lease_expires_at, finished.key, finished.tags, finished.headers,
                finished.retry, finished.timeout_seconds, finished.result, finished.reason,
                finished.last_error as error, null::timestamptz as cancel_requested_at
           from wherry.finished
          -- part: wanted_finished
            and (:fingerprint::text is null
                 or :fingerprint::text =
                 -- part: fingerprint
                 )
          order by finished.id desc
          limit :limit_tasks::integer
-- part: fitting
