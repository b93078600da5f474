-- End queued tasks whose time to live is over; the lease statement already passes them by.
-- takes:   batch integer
-- returns: id
-- locks:   the tasks, skip locked
-- index:   live_discard, live_pkey
with mine as materialized (
    select live.id, live.queue, live.token, null::bigint as ord, 'canceled' as next_state, live.attempts as next_attempts,
           live.lease_id as settled_by, null::text as worker, 'expired' as reason, null::json as result, live.last_error
      from wherry.live
     where live.discard_at <= wherry.now()
       and live.state <> 'leased'
     order by live.discard_at
     limit :batch::integer
       for update skip locked
),
-- part: gone,
-- part: kept
select gone.id from gone
