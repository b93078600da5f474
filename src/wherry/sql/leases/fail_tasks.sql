-- Record failed attempts: back to the queue while attempts remain, else dead; failed for good or
-- canceled when the verdict or a cancel request says so.
-- takes:   outcomes json array of (id, queue, token, lease_id, verdict: retry | fail | cancel,
--          retry_seconds, error_type, message, traceback, reason), closed uuid[]
-- returns: ord (position in the array, from 1), state (queued, failed, dead, canceled), woken (how many
--          notifications)
-- locks:   the tasks, skip locked
-- index:   live_pkey, lease_pkey, attempt_pkey, limited_pkey
with asked as materialized (
    select o.id, o.queue, o.token, o.lease_id, o.verdict, o.retry_seconds, o.error_type, o.message, o.traceback,
           o.reason, o.ord
      from rows from (
           json_to_recordset(:outcomes::json) as (
               id bigint, queue text, token bigint, lease_id uuid, verdict text, retry_seconds double precision,
               error_type text, message text, traceback text, reason text
           )
      ) with ordinality as o (
           id, queue, token, lease_id, verdict, retry_seconds, error_type, message, traceback, reason, ord
      )
),
-- part: held,
mine as materialized (
    select live.id, live.queue, live.token, live.leased_at, live.run_after as due_at, asked.ord, asked.error_type, asked.message,
           asked.traceback, live.attempts as next_attempts, live.lease_id as settled_by, held.worker, null::json as result,
           coalesce(asked.error_type || ': ' || asked.message, asked.error_type, asked.message, live.last_error) as last_error,
           case when live.cancel_requested_at is not null then coalesce(live.cancel_reason, 'canceled while it ran')
                else asked.reason
                 end as reason,
           case when live.cancel_requested_at is not null or asked.verdict = 'cancel' then 'canceled'
                when asked.verdict = 'fail' then 'failed'
                when live.attempts >= live.max_attempts then 'dead'
                when asked.retry_seconds > 0 then 'delayed'
                else 'ready'
                 end as next_state,
           wherry.now() + greatest(asked.retry_seconds, 0) * interval '1 second' as retry_at
    -- part: fenced
),
noted as (
    insert into wherry.attempt (
           task_id, queue, token, attempt, lease_id, started_at, ended_at, retry_at, outcome, worker,
           error_type, message, traceback
    )
    select mine.id, mine.queue, mine.token, mine.next_attempts, mine.settled_by, mine.leased_at, wherry.now(),
           case when mine.next_state in ('delayed', 'ready') then mine.retry_at end,
           case when mine.next_state = 'canceled' then 'canceled' else 'failed' end,
           mine.worker, mine.error_type, mine.message, mine.traceback
      from mine
        on conflict (task_id, queue, token) do nothing
),
back as (
    update wherry.live
       set state = mine.next_state,
           run_after = mine.retry_at,
           position = nextval('wherry.position'::regclass),
           leased_at = null,
           last_error = mine.last_error
      from mine
     where live.id = any (array(select mine.id from mine))
       and live.id = mine.id
       and live.queue = mine.queue
       and mine.next_state in ('delayed', 'ready')
    returning mine.ord, live.queue, live.run_after, live.type, live.state, mine.leased_at, mine.due_at,
              'retried' as kind
),
-- part: put_back,
-- part: gone,
-- part: kept,
-- part: counted,
-- part: closed,
-- part: freed,
arrived as (
    select back.queue
      from back
     where back.run_after < wherry.now() + interval '5 seconds'
     union
    select freed.queue
      from freed
),
-- part: woken
select back.ord, 'queued' as state, (select count(*) from woken) as woken from back
 union all
select gone.ord, gone.next_state, (select count(*) from woken) from gone
