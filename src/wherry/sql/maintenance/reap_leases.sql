-- Take back one batch of leases that ran out: each task counts an attempt and waits as after a failure,
-- or is dead, or canceled if that was asked for.
-- takes:   batch integer (lease rows)
-- returns: id, state (queued, dead, canceled); and one row more with how many lease rows are gone, since
--          rows of which no task was left must not look as if there were nothing to do
-- locks:   the expired lease rows and their tasks, skip locked
-- index:   lease_by_expiry, live_pkey
with expired as materialized (
    select lease.lease_id, lease.part, lease.queue, lease.worker, lease.task_ids
      from wherry.lease
     where lease.expires_at <= wherry.now()
     order by lease.expires_at
     limit :batch::integer
       for update skip locked
),
picked as materialized (
    -- Each task once, whatever the rows say: twice would be two rows of history.
    select expired.lease_id, expired.queue, n.task_id, min(expired.worker) as worker
      from expired
     cross join lateral unnest(expired.task_ids) as n (task_id)
     group by expired.lease_id, expired.queue, n.task_id
),
mine as materialized (
    select live.id, live.queue, live.token, live.attempts, live.leased_at, live.lease_id, picked.worker,
           case when live.cancel_requested_at is not null then 'canceled'
                when live.attempts >= live.max_attempts then 'dead'
                else 'delayed'
                 end as next_state,
           -- By the stored policy, as after a failure. Numbers that only SQL could have stored so are
           -- passed over: one bad row must not stop the pass.
           wherry.now() + interval '1 second' * case policy.kind
               when 'fixed' then policy.delay
               -- Near the cap the exponential part gives way, never the jitter.
               when 'additive' then least(policy.base * policy.growth, policy.cap - least(policy.jitter, policy.cap))
                                    + random() * least(policy.jitter, policy.cap)
               else random() * least(policy.cap, policy.base * policy.growth)
                end as retry_at
      from picked
      join wherry.live
        on live.id = any (array(select picked.task_id from picked))
       and live.id = picked.task_id
       and live.queue = picked.queue
       and live.state = 'leased'
       and live.lease_id = picked.lease_id
     cross join lateral (
           -- No policy of ours holds an escape, and some escapes cannot be read at all.
           select case when strpos(live.retry::text, chr(92)) = 0 then live.retry end as retry
     ) as stored
     cross join lateral (
           select stored.retry ->> 'kind' as kind,
                  power(2::double precision, least(live.attempts, 62)) as growth,
                  case when stored.retry ->> 'base' ~ '^[0-9]{1,10}([.][0-9]{1,10})?(e-[0-9]{1,2})?$'
                       then (stored.retry ->> 'base')::double precision else 1 end as base,
                  case when stored.retry ->> 'cap' ~ '^[0-9]{1,10}([.][0-9]{1,10})?(e-[0-9]{1,2})?$'
                       then (stored.retry ->> 'cap')::double precision else 3600 end as cap,
                  case when stored.retry ->> 'jitter' ~ '^[0-9]{1,10}([.][0-9]{1,10})?(e-[0-9]{1,2})?$'
                       then (stored.retry ->> 'jitter')::double precision else 1 end as jitter,
                  case when stored.retry ->> 'delay' ~ '^[0-9]{1,10}([.][0-9]{1,10})?(e-[0-9]{1,2})?$'
                       then (stored.retry ->> 'delay')::double precision else 1 end as delay
     ) as policy
     order by live.id
       for update of live skip locked
),
noted as (
    insert into wherry.attempt (
           task_id, queue, token, attempt, lease_id, started_at, ended_at, retry_at, outcome, worker, error_type, message
    )
    select mine.id, mine.queue, mine.token, mine.attempts, mine.lease_id, mine.leased_at, wherry.now(),
           case when mine.next_state = 'delayed' then mine.retry_at end,
           'lost', mine.worker, 'LeaseExpired',
           'the lease ran out: the worker died, hung, or lost the database'
      from mine
        -- A row that stands there already must not stop the pass.
        on conflict (task_id, queue, token) do nothing
),
back as (
    update wherry.live
       set state = 'delayed',
           run_after = mine.retry_at,
           position = nextval('wherry.position'::regclass),
           leased_at = null,
           -- What the lost worker still reports must not look as if it had been settled by itself.
           lease_id = null,
           last_error = 'LeaseExpired: worker ' || coalesce(mine.worker, 'unknown') || ' was lost'
      from mine
     where live.id = any (array(select mine.id from mine))
       and live.id = mine.id
       and live.queue = mine.queue
       and live.token = mine.token
       and live.state = 'leased'
       and mine.next_state = 'delayed'
    returning live.id
),
gone as (
    delete from wherry.live
     using mine
     where live.id = any (array(select mine.id from mine))
       and live.id = mine.id
       and live.queue = mine.queue
       and live.token = mine.token
       and live.state = 'leased'
       and mine.next_state in ('dead', 'canceled')
    returning live.id, live.token, live.created_at, live.run_after, live.leased_at, live.lease_id,
              live.timeout_seconds, live.ttl_seconds, live.key_ttl_seconds, live.attempts,
              live.max_attempts, live.priority, live.queue, live.type, live.key, live.tags,
              live.headers, live.retry, live.payload, 'LeaseExpired: worker ' || coalesce(mine.worker, 'unknown') || ' was lost' as last_error,
              mine.worker, mine.next_state
),
kept as (
    insert into wherry.finished (
           id, token, created_at, run_after, leased_at, finished_at, keep_until, key_until, lease_id,
           timeout_seconds, ttl_seconds, key_ttl_seconds, attempts, max_attempts, priority, state, queue,
           type, worker, key, tags, headers, retry, payload, reason, last_error
    )
    select gone.id, gone.token, gone.created_at, gone.run_after, gone.leased_at, wherry.now(),
           greatest(
               wherry.now() + case when gone.next_state = 'canceled' then settings.keep_succeeded else settings.keep_failed end,
               wherry.now() + gone.key_ttl_seconds * interval '1 second'
           ),
           wherry.now() + gone.key_ttl_seconds * interval '1 second',
           null, gone.timeout_seconds, gone.ttl_seconds, gone.key_ttl_seconds, gone.attempts,
           gone.max_attempts, gone.priority, gone.next_state, gone.queue, gone.type, gone.worker, gone.key,
           gone.tags, gone.headers, gone.retry, gone.payload, case when gone.next_state = 'canceled' then 'canceled while it ran' end, gone.last_error
      from gone
     cross join wherry.settings
    returning finished.id, finished.state
),
-- A task whose row is locked (its holder is completing it in an open transaction) keeps its lease row
-- for the next pass.
dropped as (
    delete from wherry.lease
     using expired
     where lease.lease_id = any (array(select expired.lease_id from expired))
       and lease.lease_id = expired.lease_id
       and lease.part = expired.part
       and lease.expires_at - wherry.now() <= interval '0'
       and not exists (
           select from wherry.live
            where live.id = any (expired.task_ids)
              and live.queue = expired.queue
              and live.lease_id = expired.lease_id
              and live.state = 'leased'
              and live.id not in (select mine.id from mine)
           offset 0
       )
    returning lease.lease_id
)
select back.id, 'queued' as state, 0 as leases from back
 union all
select kept.id, kept.state, 0 from kept
 union all
select null, null, count(*) from dropped
