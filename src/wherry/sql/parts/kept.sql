-- Keep what has ended until its retention is over, and at least as long as its key names it.
-- needs: gone, as the part of that name gives it
-- gives: kept
kept as (
    insert into wherry.finished (
           id, token, created_at, run_after, leased_at, finished_at, keep_until, key_until, lease_id,
           timeout_seconds, ttl_seconds, key_ttl_seconds, attempts, max_attempts, priority, state, queue,
           type, worker, key, tags, headers, retry, payload, result, reason, last_error
    )
    select gone.id, gone.token, gone.created_at, gone.run_after, gone.leased_at, wherry.now(),
           greatest(
               -- Of no row of gone, so each is read once.
               case when gone.next_state in ('failed', 'dead')
                    then (select wherry.now() + settings.keep_failed from wherry.settings)
                    else (select wherry.now() + settings.keep_succeeded from wherry.settings)
                     end,
               wherry.now() + gone.key_ttl_seconds * interval '1 second'
           ),
           wherry.now() + gone.key_ttl_seconds * interval '1 second',
           gone.settled_by, gone.timeout_seconds, gone.ttl_seconds, gone.key_ttl_seconds, gone.next_attempts,
           gone.max_attempts, gone.priority, gone.next_state, gone.queue, gone.type, gone.worker, gone.key,
           gone.tags, gone.headers, gone.retry, gone.payload, gone.result, gone.reason, gone.last_error
      from gone
)
