-- Finish tasks as succeeded, each only by the holder of its unexpired lease.
-- takes:   outcomes json array, one element a lease, of (lease_id, queue, and of each task ords, task_ids, tokens,
--          results: null or json as text), closed uuid[] (leases whose holder has nothing left to report)
-- returns: ord (of those now succeeded; settled_tasks.sql tells of the others)
-- locks:   the tasks, skip locked: one that an open transaction is completing is settled next time
-- index:   live_pkey, lease_pkey
with asked as materialized (
    select n.id, o.queue, n.token, o.lease_id, nullif(n.result, 'null')::json as result, n.ord
      from json_to_recordset(:outcomes::json) as o (
           lease_id uuid, queue text, ords bigint[], task_ids bigint[], tokens bigint[], results text[]
      )
     cross join lateral unnest(o.ords, o.task_ids, o.tokens, o.results) as n (ord, id, token, result)
),
-- part: held,
mine as materialized (
    select live.id, live.queue, live.token, asked.ord, 'succeeded' as next_state, live.attempts as next_attempts,
           live.lease_id as settled_by, held.worker, null::text as reason, asked.result, live.last_error
    -- part: fenced
),
-- part: gone,
-- part: kept,
-- part: closed
select gone.ord from gone
