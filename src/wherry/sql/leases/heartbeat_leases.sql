-- Extend leases. A lease row is extended for the tasks that are named; tasks of the row that are not
-- named but still leased keep their old end, in a row of their own (the row is split).
-- takes:   beats json array of (lease_id, queue, task_ids, tokens), extend_seconds double precision
-- returns: task_id, token, lease_id, queue, held (false: this lease is gone, or busy), cancel (its cancel was
--          asked for), busy (somebody else has the row: ask again)
-- locks:   the lease rows, skip locked; never a task
-- index:   lease_pkey, live_pkey
with asked as materialized (
    select distinct b.lease_id, b.queue, n.task_id, n.token
      from json_to_recordset(:beats::json) as b (lease_id uuid, queue text, task_ids bigint[], tokens bigint[])
     cross join lateral unnest(b.task_ids, b.tokens) as n (task_id, token)
),
row_held as materialized (
    select lease.lease_id, lease.part, lease.queue, lease.worker, lease.expires_at, lease.split, lease.task_ids
      from wherry.lease
     where lease.lease_id = any (array(select asked.lease_id from asked))
       and lease.expires_at - wherry.now() > interval '0'
     order by lease.lease_id, lease.part
       for update skip locked
),
member as materialized (
    select r.lease_id,
           r.part,
           r.queue,
           live.id as task_id,
           live.token,
           live.cancel_requested_at is not null as cancel,
           asked.task_id is not null as named
      from row_held as r
      join wherry.live
        on live.id = any (r.task_ids)
       and live.queue = r.queue
       and live.state = 'leased'
       and live.lease_id = r.lease_id
       and live.id = any (array(select n.task_id from row_held cross join lateral unnest(row_held.task_ids) as n (task_id)))
      left join asked
        on asked.lease_id = r.lease_id
       and asked.queue = r.queue
       and asked.task_id = live.id
       and asked.token = live.token
),
parted as materialized (
    select member.lease_id,
           member.part,
           array_agg(member.task_id) filter (where member.named) as named_ids,
           array_agg(member.task_id) filter (where not member.named) as other_ids
      from member
     group by member.lease_id, member.part
),
kept_apart as (
    insert into wherry.lease (lease_id, part, expires_at, split, queue, worker, task_ids)
    select r.lease_id,
           -- Random, since two heartbeats may split two parts of one lease at the same time.
           1 + floor(random() * 2147483646)::integer,
           r.expires_at, true, r.queue, r.worker, parted.other_ids
      from parted
      join row_held as r
        on r.lease_id = parted.lease_id
       and r.part = parted.part
     where parted.named_ids is not null
       and parted.other_ids is not null
),
extended as (
    update wherry.lease
       -- A short extension moves the end too, if only by this: that a lease was beaten can be seen from its end
       -- (give_back_tasks.sql), whichever server it was beaten through.
       set expires_at = greatest(
               lease.expires_at + interval '1 microsecond',
               wherry.now() + :extend_seconds::double precision * interval '1 second'
           ),
           split = lease.split or parted.other_ids is not null,
           task_ids = parted.named_ids
      from parted
     where lease.lease_id = any (array(select parted.lease_id from parted))
       and lease.lease_id = parted.lease_id
       and lease.part = parted.part
       and parted.named_ids is not null
)
select asked.task_id,
       asked.token,
       asked.lease_id::text,
       asked.queue,
       member.task_id is not null as held,
       coalesce(member.cancel, false) as cancel,
       -- Somebody else is extending or reaping this very row, or has just parted it: ask again.
       member.task_id is null and exists (
           select from wherry.lease
            where lease.lease_id = asked.lease_id
              and lease.queue = asked.queue
              and lease.expires_at > wherry.now()
              and asked.task_id = any (lease.task_ids)
              and not exists (
                  select from row_held
                   where row_held.lease_id = lease.lease_id
                     and row_held.part = lease.part
                     and asked.task_id = any (row_held.task_ids)
              )
           offset 0
       ) as busy
  from asked
  left join member
    on member.lease_id = asked.lease_id
   and member.queue = asked.queue
   and member.task_id = asked.task_id
   and member.token = asked.token
