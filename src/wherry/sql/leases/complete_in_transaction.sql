-- Finish one task inside the caller's transaction. Guarded by the task row alone: its lock keeps the
-- reaper away until the commit, and the lease row's end may be older in the caller's snapshot.
-- takes:   id, queue, token, lease_id, result (json): each as text, since a caller's driver may write
--          no other type as we do
-- returns: id (as text); nothing if the lease is gone
-- locks:   the task, until the caller's transaction ends; nothing that another task needs
-- index:   live_pkey, lease_pkey, limited_pkey
with gone as (
    delete from wherry.live
     where live.id = :id::text::bigint
       and live.queue = :queue::text
       and live.state = 'leased'
       and live.token = :token::text::bigint
       and live.lease_id = :lease_id::text::uuid
    returning live.id, live.token, live.created_at, live.run_after, live.leased_at, live.timeout_seconds,
              live.ttl_seconds, live.key_ttl_seconds, live.max_attempts, live.priority, live.queue,
              live.type, live.key, live.tags, live.headers, live.retry, live.payload,
              'succeeded' as next_state, live.attempts as next_attempts, live.lease_id as settled_by,
              (select lease.worker from wherry.lease where lease.lease_id = live.lease_id limit 1) as worker,
              null::text as reason, :result::text::json as result, live.last_error
),
-- part: kept,
-- part: counted,
mine as (
    select gone.queue from gone
),
-- part: freed,
arrived as (
    select freed.queue from freed
),
-- part: woken
select gone.id::text as id
  from gone
 where (select count(*) from woken) is not null
