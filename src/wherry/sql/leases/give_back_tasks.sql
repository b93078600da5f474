-- Give leased tasks back without a failure: snoozed (not now) or released (never started). The attempt
-- is not counted, up to a limit: beyond it a snoozed task is dead, and releases count.
-- takes:   outcomes json array of (id, queue, token, lease_id, verdict: snooze | release, delay_seconds),
--          max_snoozes integer, max_releases integer, closed uuid[]
-- returns: ord (position in the array, from 1), state (queued, dead, canceled)
-- locks:   the tasks, skip locked
-- index:   live_pkey, lease_pkey
with asked as materialized (
    select o.id, o.queue, o.token, o.lease_id, o.verdict, o.delay_seconds, o.ord
      from rows from (
           json_to_recordset(:outcomes::json) as (
               id bigint, queue text, token bigint, lease_id uuid, verdict text, delay_seconds double precision
           )
      ) with ordinality as o (id, queue, token, lease_id, verdict, delay_seconds, ord)
),
held as materialized (
    select lease.lease_id, lease.part, lease.worker, lease.split, lease.task_ids
      from wherry.lease
     where lease.lease_id = any (array(select asked.lease_id from asked))
       and lease.expires_at - wherry.now() > interval '0'
),
mine as materialized (
    select live.id, live.queue, held.worker, asked.verdict, asked.ord,
           case when live.cancel_requested_at is not null then 'canceled'
                when asked.verdict = 'snooze' and live.snoozes >= :max_snoozes::integer then 'dead'
                when asked.verdict = 'release' and live.releases >= :max_releases::integer
                     and live.attempts >= live.max_attempts then 'dead'
                when asked.delay_seconds > 0 then 'delayed'
                else 'ready'
                 end as next_state,
           case when asked.verdict = 'release' and live.releases >= :max_releases::integer
                then live.attempts
                else live.attempts - 1
                 end as next_attempts,
           wherry.now() + greatest(asked.delay_seconds, 0) * interval '1 second' as due_at
      from asked
      join held
        on held.lease_id = asked.lease_id
       and (not held.split or asked.id = any (held.task_ids))
      join wherry.live
        on live.id = asked.id
       and live.queue = asked.queue
     where live.id = any (array(select asked.id from asked))
       and live.state = 'leased'
       and live.token = asked.token
       and live.lease_id = asked.lease_id
     order by live.id
       for update of live skip locked
),
back as (
    update wherry.live
       set state = mine.next_state,
           attempts = mine.next_attempts,
           snoozes = live.snoozes + (mine.verdict = 'snooze')::integer,
           releases = live.releases + (mine.verdict = 'release')::integer,
           run_after = mine.due_at,
           position = nextval('wherry.position'::regclass),
           leased_at = null
      from mine
     where live.id = any (array(select mine.id from mine))
       and live.id = mine.id
       and live.queue = mine.queue
       and mine.next_state in ('delayed', 'ready')
    returning mine.ord, live.queue, live.run_after
),
gone as (
    delete from wherry.live
     using mine
     where live.id = any (array(select mine.id from mine))
       and live.id = mine.id
       and live.queue = mine.queue
       and mine.next_state in ('dead', 'canceled')
    returning live.id, live.token, live.created_at, live.run_after, live.leased_at, live.lease_id,
              live.timeout_seconds, live.ttl_seconds, live.key_ttl_seconds, live.attempts,
              live.max_attempts, live.priority, live.queue, live.type, live.key, live.tags,
              live.headers, live.retry, live.payload, live.last_error,
              mine.worker, mine.verdict, mine.next_state, mine.next_attempts, mine.ord
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
           gone.lease_id, gone.timeout_seconds, gone.ttl_seconds, gone.key_ttl_seconds, gone.next_attempts,
           gone.max_attempts, gone.priority, gone.next_state, gone.queue, gone.type, gone.worker, gone.key,
           gone.tags, gone.headers, gone.retry, gone.payload,
           case when gone.next_state = 'canceled' then 'canceled while it ran'
                when gone.verdict = 'snooze' then 'snoozed too often'
                else 'released too often'
                 end, gone.last_error
      from gone
     cross join wherry.settings
),
closed as (
    delete from wherry.lease
     using held
     where lease.lease_id = any (array(select held.lease_id from held))
       and lease.lease_id = held.lease_id
       and lease.part = held.part
       and (held.lease_id = any (:closed::uuid[]) or cardinality(held.task_ids) = 1)
       and not exists (
           select from wherry.live
            where live.id = any (held.task_ids)
              and live.queue = lease.queue
              and live.lease_id = held.lease_id
              and live.state = 'leased'
              and live.id not in (select mine.id from mine)
           offset 0
       )
),
woken as (
    select pg_notify(settings.channel, arrived.queue)
      from (select distinct back.queue from back where back.run_after < wherry.now() + interval '5 seconds') as arrived
     cross join wherry.settings
     where exists (
           select from wherry.waiting
            where waiting.queue in (arrived.queue, '')
              and waiting.expires_at > wherry.now()
           )
)
select back.ord, 'queued' as state, (select count(*) from woken) as woken from back
 union all
select gone.ord, gone.next_state, 0 from gone
