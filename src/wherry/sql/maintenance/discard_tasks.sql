-- End queued tasks whose time to live is over; the lease statement already passes them by.
-- takes:   batch integer
-- returns: id
-- locks:   the tasks, skip locked
-- index:   live_discard, live_pkey
with mine as materialized (
    select live.id, live.queue, live.type, live.token, live.state, null::bigint as ord, 'canceled' as next_state, live.attempts as next_attempts,
           live.lease_id as settled_by, null::text as worker, 'expired' as reason, null::json as result, live.last_error
      from wherry.live
     where live.discard_at <= wherry.now()
       and live.state <> 'leased'
     order by live.discard_at
     limit :batch::integer
       for update skip locked
),
-- Counted as no longer delayed or parked, if it was.
moved as (
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(), -count(*), mine.state, mine.queue, mine.type
      from mine
     where mine.state in ('delayed', 'parked')
     group by mine.state, mine.queue, mine.type
),
-- part: gone,
-- part: kept,
-- part: counted
select gone.id from gone
