-- End queued tasks whose time to live is over; the lease statement already passes them by.
-- takes:   batch integer
-- returns: id
-- locks:   the tasks, skip locked
-- index:   live_discard
with late as materialized (
    select live.id, live.queue
      from wherry.live
     where live.discard_at <= wherry.now()
       and live.state <> 'leased'
     order by live.discard_at
     limit :batch::integer
       for update skip locked
),
gone as (
    delete from wherry.live
     using late
     where live.id = any (array(select late.id from late))
       and live.id = late.id
       and live.queue = late.queue
       and live.state <> 'leased'
    returning live.id, live.token, live.created_at, live.run_after, live.leased_at, live.lease_id,
              live.timeout_seconds, live.ttl_seconds, live.key_ttl_seconds, live.attempts,
              live.max_attempts, live.priority, live.queue, live.type, live.key, live.tags,
              live.headers, live.retry, live.payload, live.last_error
)
insert into wherry.finished (
           id, token, created_at, run_after, leased_at, finished_at, keep_until, key_until, lease_id,
           timeout_seconds, ttl_seconds, key_ttl_seconds, attempts, max_attempts, priority, state, queue,
           type, worker, key, tags, headers, retry, payload, reason, last_error
)
select gone.id, gone.token, gone.created_at, gone.run_after, gone.leased_at, wherry.now(),
           greatest(wherry.now() + settings.keep_succeeded, wherry.now() + gone.key_ttl_seconds * interval '1 second'),
           wherry.now() + gone.key_ttl_seconds * interval '1 second',
           null, gone.timeout_seconds, gone.ttl_seconds, gone.key_ttl_seconds, gone.attempts,
           gone.max_attempts, gone.priority, 'canceled', gone.queue, gone.type, null, gone.key,
           gone.tags, gone.headers, gone.retry, gone.payload, 'expired', gone.last_error
  from gone
 cross join wherry.settings
returning finished.id
