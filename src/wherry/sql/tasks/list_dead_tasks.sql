-- List dead and failed tasks, newest first; its literal condition lets the small index serve.
-- takes:   states text[] (of dead, failed), queue, type, tag, error (a part of the last
--          error, any case), older_than_seconds (since it finished), after bigint (the last id of the page
--          before), limit_tasks, limit_bytes bigint (no more are returned once their payloads and results
--          have as many)
-- returns: a Task and has_more
-- locks:   none
-- index:   finished_dead
-- part: shown
         select finished.id, finished.queue, finished.type, finished.payload, finished.state, finished.priority,
                finished.attempts, finished.max_attempts, finished.token, finished.run_after, finished.created_at,
                finished.leased_at as started_at, finished.finished_at, finished.worker,
                null::timestamptz as lease_expires_at, finished.key, finished.tags, finished.headers,
                finished.retry, finished.timeout_seconds, finished.result, finished.reason,
                finished.last_error as error, null::timestamptz as cancel_requested_at
           from wherry.finished
          where finished.state in ('dead', 'failed')
            and finished.state = any (:states::text[])
            and (:queue::text is null or finished.queue = :queue::text)
            and (:type::text is null or finished.type = :type::text)
            and (:tag::text is null or finished.tags @> array[:tag::text])
            and (:error::text is null or position(lower(:error::text) in lower(finished.last_error)) > 0)
            and (:after::bigint is null or finished.id < :after::bigint)
            and (:older_than_seconds::double precision is null
                 or finished.finished_at < wherry.now() - :older_than_seconds::double precision * interval '1 second')
          order by finished.id desc
          limit :limit_tasks::integer
-- part: fitting
