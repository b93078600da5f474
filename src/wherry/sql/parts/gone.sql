-- Take the tasks that end here out of live.
-- needs: mine (id, queue, token, ord, next_state, next_attempts, settled_by, worker, reason, result,
--        last_error), its rows of live locked; settled_by is the lease whose holder ended the task
-- gives: gone, which `kept` needs, with ord
gone as (
    delete from wherry.live
     using mine
     where live.id = any (array(select mine.id from mine))
       and live.id = mine.id
       and live.queue = mine.queue
       and live.token = mine.token
       and mine.next_state in ('succeeded', 'failed', 'dead', 'canceled')
    returning live.id, live.token, live.created_at, live.run_after, live.leased_at, live.timeout_seconds,
              live.ttl_seconds, live.key_ttl_seconds, live.max_attempts, live.priority, live.queue,
              live.type, live.key, live.tags, live.headers, live.retry, live.payload,
              mine.ord, mine.next_state, mine.next_attempts, mine.settled_by, mine.worker, mine.reason,
              mine.result, mine.last_error
)
