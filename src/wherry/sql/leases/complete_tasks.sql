-- Finish tasks as succeeded, each only by the holder of its unexpired lease. What nobody else holds need not be locked
-- first, which is a sixth of what a task costs here: who meets somebody else fails, and complete_unlocked.sql is for him.
-- takes:   outcomes json array, one element a lease, of (lease_id, queue, before: how many tasks the elements before it
--          have, and of each task task_ids, tokens, results: null or json as text; null if none has any),
--          closed uuid[] (leases whose holder has nothing left to report)
-- returns: ords (of those now succeeded, from 1, in one row: a row for each would cost its reader more than
--          the number; null if there are none; settled_tasks.sql tells of the others)
-- locks:   the tasks; one that somebody else holds for 50 ms more fails it (lock_not_available)
-- index:   live_pkey, lease_pkey, limited_pkey
with asked as materialized (
    select n.id, o.queue, n.token, o.lease_id, nullif(n.result, 'null')::json as result, o.before + n.ord as ord
      from json_to_recordset(:outcomes::json) as o (
           lease_id uuid, queue text, before bigint, task_ids bigint[], tokens bigint[], results text[]
      )
     cross join lateral unnest(o.task_ids, o.tokens, o.results) with ordinality as n (id, token, result, ord)
),
-- part: held,
patience as materialized (
    -- For the tasks only, and set back when the last of them is gone: all other locks are as short as what they wait
    -- for. A commit that notifies stands in line for longer where commits are slow, and each would be made twice.
    select looked_up.lock_timeout, set_config('lock_timeout', '50ms', true) as is_short
      from (select current_setting('lock_timeout') as lock_timeout, count(*) from held) as looked_up
),
gone as (
    delete from wherry.live
     using asked
      join held
        on held.lease_id = asked.lease_id
       and (held.only_ids is null or asked.id = any (held.only_ids))
     where live.id = any (array(select asked.id from asked))
       and live.id = asked.id
       and live.queue = asked.queue
       and live.state = 'leased'
       and live.token = asked.token
       and live.lease_id = asked.lease_id
       and (select patience.is_short from patience) is not null
    returning live.id, live.token, live.created_at, live.run_after, live.leased_at, live.timeout_seconds,
              live.ttl_seconds, live.key_ttl_seconds, live.max_attempts, live.priority, live.queue,
              live.type, live.key, live.tags, live.headers, live.retry, live.payload,
              asked.ord, 'succeeded' as next_state, live.attempts as next_attempts, live.lease_id as settled_by,
              held.worker, null::text as reason, asked.result, live.last_error
),
mine as (
    select gone.id, gone.queue from gone
),
-- part: kept,
-- part: counted,
-- part: closed,
-- part: freed,
arrived as (
    select freed.queue from freed
),
-- part: woken
select case when (select set_config('lock_timeout', patience.lock_timeout, true) from patience) is not null
            then array_agg(gone.ord)
             end as ords
  from gone
 where (select count(*) from woken) is not null
