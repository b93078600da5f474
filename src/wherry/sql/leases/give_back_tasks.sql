-- Give leased tasks back without a failure: snoozed (not now) or released (never started). The attempt
-- is not counted, up to a limit: beyond it a snoozed task is dead, and releases count.
-- takes:   outcomes json array of (id, queue, token, lease_id, verdict: snooze | release, delay_seconds,
--          lease_seconds: only if nobody has extended this lease, which was given for so long; null: in any
--          case), max_snoozes integer, max_releases integer, closed uuid[]
-- returns: ord (position in the array, from 1), state (queued, dead, canceled), woken (how many notifications)
-- locks:   the tasks, skip locked; the lease rows that nobody must extend meanwhile, skip locked
-- index:   live_pkey, lease_pkey, limited_pkey
with told as materialized (
    select o.id, o.queue, o.token, o.lease_id, o.verdict, o.delay_seconds, o.lease_seconds, o.ord
      from rows from (
           json_to_recordset(:outcomes::json) as (
               id bigint, queue text, token bigint, lease_id uuid, verdict text, delay_seconds double precision,
               lease_seconds double precision
           )
      ) with ordinality as o (id, queue, token, lease_id, verdict, delay_seconds, lease_seconds, ord)
),
-- A heartbeat moves the end, by a microsecond at least, and locks the row as we do: of the two one comes first, and
-- the other sees it. Until then the end is exactly what the statement that leased the task made of the same values.
unextended as materialized (
    select told.ord
      from told
      join wherry.lease
        on lease.lease_id = told.lease_id
       and told.id = any (lease.task_ids)
      join wherry.live
        on live.id = told.id
       and live.queue = told.queue
     where lease.lease_id = any (array(select t.lease_id from told as t where t.lease_seconds is not null))
       and live.id = any (array(select t.id from told as t where t.lease_seconds is not null))
       and live.lease_id = told.lease_id
       and lease.expires_at <= live.leased_at + told.lease_seconds * interval '1 second'
     order by lease.lease_id, lease.part
       for update of lease skip locked
),
asked as materialized (
    select told.id, told.queue, told.token, told.lease_id, told.verdict, told.delay_seconds, told.ord
      from told
     where told.lease_seconds is null
        or told.ord in (select unextended.ord from unextended)
),
-- part: held,
mine as materialized (
    select live.id, live.queue, live.token, live.leased_at, live.run_after as due_at, asked.ord, asked.verdict, live.lease_id as settled_by, held.worker,
           null::json as result, live.last_error,
           case when live.cancel_requested_at is not null then coalesce(live.cancel_reason, 'canceled while it ran')
                when asked.verdict = 'snooze' then 'snoozed too often'
                else 'released too often'
                 end as reason,
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
           wherry.now() + greatest(asked.delay_seconds, 0) * interval '1 second' as next_at
    -- part: fenced
),
back as (
    update wherry.live
       set state = mine.next_state,
           attempts = mine.next_attempts,
           snoozes = live.snoozes + (mine.verdict = 'snooze')::integer,
           releases = live.releases + (mine.verdict = 'release')::integer,
           run_after = mine.next_at,
           position = nextval('wherry.position'::regclass),
           leased_at = null
      from mine
     where live.id = any (array(select mine.id from mine))
       and live.id = mine.id
       and live.queue = mine.queue
       and mine.next_state in ('delayed', 'ready')
    returning mine.ord, live.queue, live.run_after, live.type, live.state, mine.leased_at, mine.due_at,
              case when mine.verdict = 'snooze' then 'snoozed' else 'released' end as kind
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
