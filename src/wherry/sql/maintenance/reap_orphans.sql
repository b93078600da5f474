-- Take back leased tasks that no lease row vouches for. Nothing in Wherry makes one (task and lease row
-- are written together); a hand in the database can, and the task must not wait for ever.
-- takes:   batch integer (tasks)
-- returns: id, state (queued, dead, canceled), run_after
-- locks:   the tasks, skip locked
-- index:   none: reads live once, so it runs rarely
with picked as materialized (
    select live.lease_id, live.queue, live.id as task_id, null::text as worker
      from wherry.live
     where live.state = 'leased'
       and not exists (
           select from wherry.lease
            where lease.lease_id = live.lease_id
              and live.id = any (lease.task_ids)
       )
     limit :batch::integer
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
       and live.lease_id is not distinct from picked.lease_id
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
    returning live.id, live.run_after
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
)
select back.id, 'queued' as state, back.run_after from back
 union all
select kept.id, kept.state, null from kept
