-- Finish tasks as complete_tasks.sql does, but for those that somebody else holds, for which nobody waits here.
-- takes:   outcomes json array, closed uuid[]: as there
-- returns: ords (as there)
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
    select live.id, live.queue, live.token, asked.ord, 'succeeded' as next_state, live.attempts as next_attempts,
           live.lease_id as settled_by, held.worker, null::text as reason, asked.result, live.last_error
    -- part: fenced
),
-- part: gone,
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
