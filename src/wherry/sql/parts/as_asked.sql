-- What a new task has from its enqueue. Its ids, its key and its payload each statement gets in a way of its own.
-- needs: asked (run_after, timeout_seconds, ttl_seconds, max_attempts, priority, queue, type, tags, headers, retry)
-- gives: created_at, run_after, discard_at, timeout_seconds, ttl_seconds, max_attempts, priority, state, queue, type,
--        tags, headers, retry: the last columns of an INSERT into live
           wherry.now(),
           asked.run_after,
           wherry.now() + asked.ttl_seconds * interval '1 second',
           asked.timeout_seconds,
           asked.ttl_seconds,
           asked.max_attempts,
           asked.priority,
           case when asked.run_after > wherry.now() then 'delayed' else 'ready' end,
           asked.queue,
           asked.type,
           asked.tags,
           asked.headers,
           asked.retry
