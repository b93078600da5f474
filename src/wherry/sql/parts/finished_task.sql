-- A finished task, as a Task is read. It begins a select.
-- needs: nothing
-- gives: the rows of finished
select finished.id, finished.queue, finished.type, finished.payload::text as payload_text, finished.state,
       finished.priority, finished.attempts, finished.max_attempts, finished.token, finished.run_after,
       finished.created_at, finished.leased_at as started_at, finished.finished_at, finished.worker,
       null::timestamptz as lease_expires_at, finished.key, finished.tags, finished.headers::text as headers_text,
       finished.retry::text as retry_text, finished.timeout_seconds, finished.result::text as result_text,
       finished.reason, finished.last_error as error, null::timestamptz as cancel_requested_at
  from wherry.finished
