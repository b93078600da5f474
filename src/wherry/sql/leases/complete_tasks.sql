-- Finish tasks as succeeded, each only by the holder of its unexpired lease.
-- takes:   outcomes json array of (id, queue, token, lease_id, result), closed uuid[] (leases whose holder
--          has nothing left to report)
-- returns: ord (position in the array, from 1); of those now succeeded, settled_tasks.sql tells of the others
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
