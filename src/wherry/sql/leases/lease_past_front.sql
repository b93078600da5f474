-- Lease the next tasks of one queue to a worker, as lease_tasks does, but only from where its ready tasks begin: not a
-- page of what is dead in front of that is read. Looking at one stretch after the other costs a lease of one task
-- 10 us, so whoever knows of no front uses the other one.
-- takes:   queue text, types text[] (null: any), limit_tasks integer, limit_last integer (how many of them
--          may be on their last attempt, in order), worker text, lease_seconds double precision, highs smallint[],
--          lows smallint[], starts bigint[] (the stretches, in the order in which tasks are leased)
-- returns: a Lease (all of them unordered: sort by priority descending, then position)
-- locks:   the leased rows, skip locked; of a limited queue its row, for a moment if it must
-- index:   live_ready, live_pkey, paused_pkey, paused_type_pkey, limited_pkey
with due as materialized (
    select found.id, found.is_last
      from unnest(:highs::smallint[], :lows::smallint[], :starts::bigint[]) as stretch (high, low, start)
     cross join lateral (
           select live.id,
                  live.attempts + 1 >= live.max_attempts as is_last
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
fit as materialized (
    select due.id
      from due
     where not due.is_last
     union all
    (
    select due.id
      from due
     where due.is_last
     limit :limit_last::integer
    )
),
held as materialized (
    select gen_random_uuid() as lease_id,
           array_agg(fit.id) as task_ids
      from fit
    having count(*) > 0
       and (select wherry.note_starts(limited.queue, count(fit.id)::integer)
              from wherry.limited
             where limited.queue = :queue::text) is not false
),
noted as (
    insert into wherry.lease (lease_id, expires_at, queue, worker, task_ids)
    select held.lease_id,
           wherry.now() + :lease_seconds::double precision * interval '1 second',
           :queue::text,
           :worker::text,
           held.task_ids
      from held
)
update wherry.live
   set state = 'leased',
       attempts = live.attempts + 1,
       token = live.token + 1,
       lease_id = (select held.lease_id from held),
       leased_at = wherry.now()
 where live.id = any (array(select fit.id from fit))
   and live.queue = :queue::text
-- part: leased
