-- Take back one batch of leases that ran out: each task counts an attempt and waits as after a failure,
-- or is dead, or canceled if that was asked for.
-- takes:   batch integer (lease rows)
-- returns: id, state (queued, dead, canceled), leases (0); and one row more without a task, with how many
--          lease rows are gone: rows of which no task was left must not look as if nothing were to do
-- locks:   the expired lease rows and their tasks, skip locked
-- index:   lease_by_expiry, live_pkey, attempt_pkey, lease_pkey, limited_pkey
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
    select live.id, live.queue, live.token, live.leased_at, live.lease_id, null::bigint as ord,
           live.attempts as next_attempts, picked.worker,
           -- What the lost worker still reports must not look as if it had been settled by itself.
           null::uuid as settled_by,
           case when live.cancel_requested_at is not null then coalesce(live.cancel_reason, 'canceled while it ran')
                 end as reason,
           null::json as result, 'LeaseExpired: worker ' || picked.worker || ' was lost' as last_error,
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
    select mine.id, mine.queue, mine.token, mine.next_attempts, mine.lease_id, mine.leased_at, wherry.now(),
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
           lease_id = mine.settled_by,
           last_error = mine.last_error
      from mine
     where live.id = any (array(select mine.id from mine))
       and live.id = mine.id
       and live.queue = mine.queue
       and live.token = mine.token
       and live.state = 'leased'
       and mine.next_state = 'delayed'
    returning live.id, live.queue, live.type, live.state, mine.leased_at, null::timestamptz as due_at, 'lost' as kind
),
-- part: put_back,
-- part: gone,
-- part: kept,
-- part: counted,
-- What ended so was lost as well.
lost as (
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(), count(*), 'lost', gone.queue, gone.type
      from gone
     group by gone.queue, gone.type
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
),
-- part: freed,
arrived as (
    select freed.queue from freed
),
-- part: woken
select back.id, 'queued' as state, 0 as leases from back
 union all
select gone.id, gone.next_state, 0 from gone
 union all
select null, null, count(*) from dropped where (select count(*) from woken) is not null
