-- The history of tasks: every attempt that did not succeed, oldest first.
-- takes:   ids bigint[]
-- returns: task_id, token, attempt, outcome, worker, started_at, ended_at, retry_at, error_type, message, traceback
-- locks:   none
-- index:   attempt_pkey
select attempt.task_id, attempt.token, attempt.attempt, attempt.outcome, attempt.worker,
       attempt.started_at, attempt.ended_at, attempt.retry_at, attempt.error_type, attempt.message,
       attempt.traceback
  from wherry.attempt
 where attempt.task_id = any (:ids::bigint[])
 order by attempt.task_id, attempt.token
