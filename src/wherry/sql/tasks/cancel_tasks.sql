-- Cancel queued tasks at once, and ask the holders of leased ones to let go.
-- takes:   ids bigint[], reason text
-- returns: id, answer (canceled, requested, final, unknown)
-- locks:   the tasks, in the order of their ids; waits for whoever is settling one
-- index:   live_pkey, finished_pkey
with mine as materialized (
    select live.id, live.queue, live.state
      from wherry.live
     where live.id = any (:ids::bigint[])
     order by live.id
       for update
),
asked as (
    update wherry.live
       set cancel_requested_at = coalesce(live.cancel_requested_at, wherry.now())
      from mine
     where live.id = any (:ids::bigint[])
       and live.id = mine.id
       and live.queue = mine.queue
       and mine.state = 'leased'
    returning live.id
),
gone as (
    delete from wherry.live
     using mine
     where live.id = any (:ids::bigint[])
       and live.id = mine.id
       and live.queue = mine.queue
       and mine.state <> 'leased'
    returning live.id, live.token, live.created_at, live.run_after, live.leased_at, live.lease_id,
              live.timeout_seconds, live.ttl_seconds, live.key_ttl_seconds, live.attempts,
              live.max_attempts, live.priority, live.queue, live.type, live.key, live.tags,
              live.headers, live.retry, live.payload, live.last_error
),
kept as (
    insert into wherry.finished (
           id, token, created_at, run_after, leased_at, finished_at, keep_until, key_until, lease_id,
           timeout_seconds, ttl_seconds, key_ttl_seconds, attempts, max_attempts, priority, state, queue,
           type, worker, key, tags, headers, retry, payload, reason, last_error
    )
    select gone.id, gone.token, gone.created_at, gone.run_after, gone.leased_at, wherry.now(),
           greatest(wherry.now() + settings.keep_succeeded, wherry.now() + gone.key_ttl_seconds * interval '1 second'),
           wherry.now() + gone.key_ttl_seconds * interval '1 second',
           gone.lease_id, gone.timeout_seconds, gone.ttl_seconds, gone.key_ttl_seconds, gone.attempts,
           gone.max_attempts, gone.priority, 'canceled', gone.queue, gone.type, null, gone.key,
           gone.tags, gone.headers, gone.retry, gone.payload, coalesce(:reason::text, 'canceled while it was queued'), gone.last_error
      from gone
     cross join wherry.settings
    returning finished.id
)
select kept.id, 'canceled' as answer from kept
 union all
select asked.id, 'requested' from asked
