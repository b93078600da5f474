-- Finish tasks as succeeded, each only by the holder of its unexpired lease.
-- takes:   outcomes json array of (id, queue, token, lease_id, result), closed uuid[] (leases whose holder
--          has nothing left to report)
-- returns: ord (position in the array, from 1) of those now succeeded; settled_tasks.sql tells of the others
-- locks:   the tasks, skip locked: one that an open transaction is completing is settled next time
-- index:   live_pkey, lease_pkey
with asked as materialized (
    select o.id, o.queue, o.token, o.lease_id, o.result, o.ord
      from rows from (
           json_to_recordset(:outcomes::json) as (
               id bigint, queue text, token bigint, lease_id uuid, result json
           )
      ) with ordinality as o (id, queue, token, lease_id, result, ord)
),
held as materialized (
    select lease.lease_id, lease.part, lease.worker, lease.split, lease.task_ids
      from wherry.lease
     where lease.lease_id = any (array(select asked.lease_id from asked))
       and lease.expires_at - wherry.now() > interval '0'
),
mine as materialized (
    select live.id, live.queue, held.worker, asked.result, asked.ord
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
gone as (
    delete from wherry.live
     using mine
     where live.id = any (array(select mine.id from mine))
       and live.id = mine.id
       and live.queue = mine.queue
    returning live.id, live.token, live.created_at, live.run_after, live.leased_at, live.lease_id,
              live.timeout_seconds, live.ttl_seconds, live.key_ttl_seconds, live.attempts,
              live.max_attempts, live.priority, live.queue, live.type, live.key, live.tags,
              live.headers, live.retry, live.payload, live.last_error, mine.worker, mine.result,
              mine.ord
),
kept as (
    insert into wherry.finished (
           id, token, created_at, run_after, leased_at, finished_at, keep_until, key_until, lease_id,
           timeout_seconds, ttl_seconds, key_ttl_seconds, attempts, max_attempts, priority, state, queue,
           type, worker, key, tags, headers, retry, payload, result, last_error
    )
    select gone.id, gone.token, gone.created_at, gone.run_after, gone.leased_at, wherry.now(),
           greatest(wherry.now() + settings.keep_succeeded, wherry.now() + gone.key_ttl_seconds * interval '1 second'),
           wherry.now() + gone.key_ttl_seconds * interval '1 second',
           gone.lease_id, gone.timeout_seconds, gone.ttl_seconds, gone.key_ttl_seconds, gone.attempts,
           gone.max_attempts, gone.priority, 'succeeded', gone.queue, gone.type, gone.worker, gone.key,
           gone.tags, gone.headers, gone.retry, gone.payload, gone.result, gone.last_error
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
       -- Never trust the holder's count: a task whose lease row is gone would be nobody's.
       and not exists (
           select from wherry.live
            where live.id = any (held.task_ids)
              and live.queue = lease.queue
              and live.lease_id = held.lease_id
              and live.state = 'leased'
              and live.id not in (select mine.id from mine)
           offset 0
       )
)
select gone.ord from gone
