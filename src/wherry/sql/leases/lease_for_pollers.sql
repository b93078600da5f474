-- Lease the next tasks of one queue to many workers that wait for it, in one statement: highest priority
-- first, then the longest ready, dealt out in turns. Each worker gets a lease of its own. Of a paused queue
-- none, of a limited one no more than there is room for.
-- takes:   queue text, types text[] (null: any), limit_tasks integer, limit_bytes bigint (no more are leased once
--          their payloads have as many; for tasks on their last attempt it is counted anew), pollers json array of (lease_id, worker,
--          lease_seconds, limit_tasks, limit_last: how many may be on their last attempt); the limits of all
--          together are not many more than limit_tasks; highs smallint[], lows smallint[], starts bigint[] (the
--          stretches to look through, in the order in which tasks are leased)
-- returns: a Lease (all of them unordered: sort by priority descending, then position)
-- locks:   the leased rows, skip locked; of a limited queue its row, for a moment if it must
-- index:   live_ready, live_pkey, paused_pkey, paused_type_pkey, limited_pkey
with ready as materialized (
    select found.id, found.priority, found.position, found.is_last, found.size_bytes
      from unnest(:highs::smallint[], :lows::smallint[], :starts::bigint[]) as stretch (high, low, start)
     cross join lateral (
           select live.id,
                  live.priority,
                  live.position,
                  live.attempts + 1 >= live.max_attempts as is_last,
                  -- Only what is compressed, as small ones never are, has to be read for it.
                  case when live.payload is null then wherry.payload_bytes(live.id, live.queue)
                       when pg_column_compression(live.payload) is null then pg_column_size(live.payload)
                       else octet_length(live.payload::text)
                        end as size_bytes
             from wherry.live
            where live.queue = :queue::text
              and live.state = 'ready'
              and live.priority between stretch.low and stretch.high
              and live.position >= stretch.start
              -- part: leasable
     ) as found
     -- The stretches are looked at as they are needed, so none but what is taken is locked.
     -- part: roomy
),
due as materialized (
    select r.id, r.is_last, r.nth
      from (
           select ready.id,
                  ready.is_last,
                  row_number() over turn as nth,
                  sum(ready.size_bytes) over turn - ready.size_bytes as bytes_before
             from ready
           window turn as (
                  partition by ready.is_last order by ready.priority desc, ready.position rows unbounded preceding
           )
      ) as r
     where r.bytes_before < :limit_bytes::bigint
),
slot as (
    select p.lease_id,
           p.worker,
           p.lease_seconds,
           p.poller,
           turn.nth as turn,
           turn.nth <= p.limit_last as may_be_last
      from rows from (
           json_to_recordset(:pollers::json) as (
               lease_id uuid, worker text, lease_seconds double precision, limit_tasks integer, limit_last integer
           )
      ) with ordinality as p (lease_id, worker, lease_seconds, limit_tasks, limit_last, poller)
     cross join lateral generate_series(1, least(p.limit_tasks, (select count(*) from due))) as turn (nth)
     -- Where nothing is ready, as most of the time, a thousand pollers cost nothing.
     where exists (select from due)
),
meant as (
    select slot.lease_id,
           slot.worker,
           slot.lease_seconds,
           slot.turn,
           slot.poller,
           -- The first that may, for as many as there are: the other slots are for the other tasks.
           slot.may_be_last and count(*) filter (where slot.may_be_last) over (order by slot.turn, slot.poller)
               <= (select count(*) from due where due.is_last) as for_last
      from slot
),
place as (
    select meant.lease_id,
           meant.worker,
           meant.lease_seconds,
           meant.for_last,
           row_number() over (partition by meant.for_last order by meant.turn, meant.poller) as nth
      from meant
),
dealt as materialized (
    select due.id, place.lease_id, place.worker, place.lease_seconds
      from due
      join place
        on place.for_last = due.is_last
       and place.nth = due.nth
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
    having (select wherry.note_starts(limited.queue, count(dealt.id)::integer)
              from wherry.limited
             where limited.queue = :queue::text) is not false
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
-- part: leased
