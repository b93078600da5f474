-- Lease the next tasks of one queue to many workers that wait for it, in one statement: highest priority
-- first, then the longest ready, dealt out in the order of the slots. Each worker gets a lease of its own. Of
-- a paused queue none.
-- takes:   queue text, types text[] (null: any), slots integer[] (of which poller, from 1, each is), allowed
--          boolean[] (whether the slot takes a task on its last attempt), and of each poller: lease_ids
--          uuid[], workers text[], lease_seconds double precision[]
-- returns: a Lease (all of them unordered: sort by priority descending, then position)
-- locks:   the leased rows, skip locked
-- index:   live_ready, live_pkey, paused_pkey
with due as materialized (
    select live.id,
           live.priority,
           live.position,
           live.attempts + 1 >= live.max_attempts as is_last
      from wherry.live
     where live.queue = :queue::text
       and live.state = 'ready'
       and (:types::text[] is null or live.type = any (:types::text[]))
       and (live.discard_at is null or live.discard_at > wherry.now())
       -- Of no row, so it is looked at once.
       and not exists (select from wherry.paused where paused.queue = :queue::text)
     order by live.priority desc, live.position
     limit cardinality(:slots::integer[])
       for update skip locked
),
task as (
    select due.id,
           due.is_last,
           row_number() over (partition by due.is_last order by due.priority desc, due.position) as nth
      from due
),
slot as materialized (
    select s.poller,
           s.ord,
           -- The first that may, for as many as there are: the other slots are for the other tasks.
           s.allowed and count(*) filter (where s.allowed) over (order by s.ord)
               <= (select count(*) from due where due.is_last) as for_last
      from unnest(:slots::integer[], :allowed::boolean[]) with ordinality as s (poller, allowed, ord)
     -- Where nothing is ready, as most of the time, a thousand slots cost nothing.
     where exists (select from due)
),
place as (
    select slot.poller,
           slot.for_last,
           row_number() over (partition by slot.for_last order by slot.ord) as nth
      from slot
),
dealt as materialized (
    select task.id, p.lease_id, p.worker, p.lease_seconds
      from task
      join place
        on place.for_last = task.is_last
       and place.nth = task.nth
      join unnest(:lease_ids::uuid[], :workers::text[], :lease_seconds::double precision[])
           with ordinality as p (lease_id, worker, lease_seconds, poller)
        on p.poller = place.poller
),
noted as (
    insert into wherry.lease (lease_id, expires_at, queue, worker, task_ids)
    select dealt.lease_id,
           wherry.now() + dealt.lease_seconds * interval '1 second',
           :queue::text,
           dealt.worker,
           array_agg(dealt.id)
      from dealt
     group by dealt.lease_id, dealt.worker, dealt.lease_seconds
)
update wherry.live
   set state = 'leased',
       attempts = live.attempts + 1,
       token = live.token + 1,
       lease_id = dealt.lease_id,
       leased_at = wherry.now()
  from dealt
 where live.id = any (array(select dealt.id from dealt))
   and live.id = dealt.id
   and live.queue = :queue::text
returning live.id, live.queue, live.type, live.payload::text as payload_text, live.priority, live.position,
          live.attempts as attempt, live.max_attempts, live.token, live.lease_id::text as lease_id, live.run_after,
          live.created_at, live.leased_at, live.timeout_seconds, live.key, live.tags,
          live.headers::text as headers_text, live.retry::text as retry_text, live.last_error, live.snoozes
