-- Cancel queued tasks at once, and ask the holders of leased ones to let go.
-- takes:   ids bigint[], reason text
-- returns: id, answer (canceled, requested); nothing of an id that is not live
-- locks:   the tasks, in the order of their ids; waits for whoever is settling one
-- index:   live_pkey
with mine as materialized (
    select live.id, live.queue, live.type, live.token, live.state, null::bigint as ord,
           case when live.state <> 'leased' then 'canceled' end as next_state,
           live.attempts as next_attempts, live.lease_id as settled_by, null::text as worker,
           coalesce(:reason::text, 'canceled while it was queued') as reason, null::json as result, live.last_error
      from wherry.live
     where live.id = any (:ids::bigint[])
     order by live.id
       for update
),
asked as (
    update wherry.live
       set cancel_requested_at = coalesce(live.cancel_requested_at, wherry.now()),
           -- The first one to ask says why.
           cancel_reason = case when live.cancel_requested_at is null then :reason::text else live.cancel_reason end
      from mine
     where live.id = any (:ids::bigint[])
       and live.id = mine.id
       and live.queue = mine.queue
       and mine.next_state is null
    returning live.id
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
select gone.id, 'canceled' as answer from gone
 union all
select asked.id, 'requested' from asked
