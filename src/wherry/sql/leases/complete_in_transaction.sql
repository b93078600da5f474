-- Finish one task inside the caller's transaction. Guarded by the task row alone: its lock keeps the
-- reaper away until the commit, and the lease row's end may be older in the caller's snapshot.
-- takes:   id, queue, token, lease_id, result (json): each as text, since a caller's driver may write
--          no other type as we do
-- returns: id, as text; nothing if the lease is gone
-- locks:   the task, until the caller's transaction ends; nothing that another task needs
-- index:   live_pkey
with gone as (
    delete from wherry.live
     where live.id = :id::text::bigint
       and live.queue = :queue::text
       and live.state = 'leased'
       and live.token = :token::text::bigint
       and live.lease_id = :lease_id::text::uuid
    returning live.id, live.token, live.created_at, live.run_after, live.leased_at, live.lease_id,
              live.timeout_seconds, live.ttl_seconds, live.key_ttl_seconds, live.attempts,
              live.max_attempts, live.priority, live.queue, live.type, live.key, live.tags,
              live.headers, live.retry, live.payload, live.last_error
)
insert into wherry.finished (
       id, token, created_at, run_after, leased_at, finished_at, keep_until, key_until, lease_id,
       timeout_seconds, ttl_seconds, key_ttl_seconds, attempts, max_attempts, priority, state, queue,
       type, worker, key, tags, headers, retry, payload, result, last_error
)
select gone.id, gone.token, gone.created_at, gone.run_after, gone.leased_at, wherry.now(),
       greatest(wherry.now() + settings.keep_succeeded, wherry.now() + gone.key_ttl_seconds * interval '1 second'),
       wherry.now() + gone.key_ttl_seconds * interval '1 second',
       gone.lease_id, gone.timeout_seconds, gone.ttl_seconds, gone.key_ttl_seconds, gone.attempts,
       gone.max_attempts, gone.priority, 'succeeded', gone.queue, gone.type,
       (select lease.worker from wherry.lease where lease.lease_id = gone.lease_id limit 1),
       gone.key, gone.tags, gone.headers, gone.retry, gone.payload, :result::text::json, gone.last_error
  from gone
 cross join wherry.settings
returning finished.id::text
