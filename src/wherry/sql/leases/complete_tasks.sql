-- Finish tasks as succeeded, each only by the holder of its unexpired lease.
-- takes:   outcomes json array, one element a lease, of (lease_id, queue, before: how many tasks the elements before it
--          have, and of each task task_ids, tokens, results: null or json as text; null if none has any),
--          closed uuid[] (leases whose holder has nothing left to report)
-- returns: ords (of those now succeeded, from 1, in one row: a row for each would cost its reader more than
--          the number; null if there are none; settled_tasks.sql tells of the others)
-- locks:   the tasks, skip locked: one that an open transaction is completing is settled next time
-- index:   live_pkey, lease_pkey, limited_pkey
with asked as materialized (
    select n.id, o.queue, n.token, o.lease_id, nullif(n.result, 'null')::json as result, o.before + n.ord as ord
      from json_to_recordset(:outcomes::json) as o (
           lease_id uuid, queue text, before bigint, task_ids bigint[], tokens bigint[], results text[]
      )
     cross join lateral unnest(o.task_ids, o.tokens, o.results) with ordinality as n (id, token, result, ord)
),
-- part: held,
mine as materialized (
    select live.id, live.queue, live.token, asked.ord, held.worker, asked.result
    -- part: fenced
),
-- As the part of that name, but all end alike: what is the same for each need not come from each row of mine.
gone as (
    delete from wherry.live
     using mine
     where live.id = any (array(select mine.id from mine))
       and live.id = mine.id
       and live.queue = mine.queue
       and live.token = mine.token
    returning live.id, live.token, live.created_at, live.run_after, live.leased_at, live.timeout_seconds,
              live.ttl_seconds, live.key_ttl_seconds, live.max_attempts, live.priority, live.queue,
              live.type, live.key, live.tags, live.headers, live.retry, live.payload,
              mine.ord, 'succeeded' as next_state, live.attempts as next_attempts, live.lease_id as settled_by,
              mine.worker, null::text as reason, mine.result, live.last_error
),
-- part: kept,
-- part: counted,
-- part: closed,
-- part: freed,
arrived as (
    select freed.queue from freed
),
-- part: woken
select array_agg(gone.ord) as ords
  from gone
 where (select count(*) from woken) is not null
