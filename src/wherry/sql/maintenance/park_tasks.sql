-- Set aside ready tasks of types that no live worker knows, so that they do not stand in front of the
-- others: one batch from the front of one queue. Without any live worker nothing is parked.
-- takes:   queue text, batch integer
-- returns: looked_at, parked
-- locks:   the parked rows, skip locked
-- index:   live_ready, live_pkey
with known as materialized (
    select distinct n.type
      from wherry.worker
     cross join lateral unnest(worker.types) as n (type)
     where worker.expires_at > wherry.now()
),
front as materialized (
    select live.id, live.type
      from wherry.live
     where live.queue = :queue::text
       and live.state = 'ready'
     order by live.priority desc, live.position
     limit :batch::integer
       for update skip locked
),
parked as (
    update wherry.live
       set state = 'parked'
      from front
     where live.id = front.id
       and live.queue = :queue::text
       and live.state = 'ready'
       and exists (select from known)
       and front.type not in (select known.type from known)
    returning live.id
)
select (select count(*) from front) as looked_at,
       (select count(*) from parked) as parked
