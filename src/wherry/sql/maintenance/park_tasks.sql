-- Set aside ready tasks of types that no live worker knows, or that are paused, so that they do not stand in front of
-- the others: one batch of the first in one queue. Without any live worker, or with one that knows any type, every type
-- is known.
-- takes:   queue text, batch integer
-- returns: parked (how many)
-- locks:   the parked rows, skip locked
-- index:   live_ready, live_pkey, front_pkey, paused_type_pkey
with known as materialized (
    select distinct n.type
      from wherry.worker
     cross join lateral unnest(worker.types) as n (type)
     where worker.expires_at > wherry.now()
),
-- Looked at without a lock: the rows of known types must stay there for whoever leases meanwhile.
foremost as materialized (
    select found.id, found.type
      from (values (:queue::text)) as asked (queue)
      -- part: newest_front
     cross join lateral unnest(
           coalesce(newest.highs, '{100}'),
           coalesce(newest.lows, '{-100}'),
           coalesce(newest.starts, '{-9223372036854775808}')
     ) as stretch (high, low, start)
     cross join lateral (
           select live.id, live.type
             from wherry.live
            where live.queue = :queue::text
              and live.state = 'ready'
              and live.priority between stretch.low and stretch.high
              and live.position >= stretch.start
            order by live.priority desc, live.position
            limit :batch::integer
     ) as found
     limit :batch::integer
),
unknown as materialized (
    select live.id
      from foremost
      join wherry.live
        on live.id = any (array(select foremost.id from foremost))
       and live.id = foremost.id
       and live.queue = :queue::text
       and (live.state = 'ready') is true
     where (
           exists (select from known)
       and not exists (select from wherry.worker where worker.types is null and worker.expires_at > wherry.now())
       and foremost.type not in (select known.type from known)
           )
        or (
           -- What only programs lease, of which nobody knows the types, would not be brought back.
           exists (select from wherry.worker where worker.expires_at > wherry.now())
       and foremost.type = any (array(
               select paused_type.type from wherry.paused_type where paused_type.queue in ('', :queue::text)
           ))
           )
       for update of live skip locked
),
parked as (
    update wherry.live
       set state = 'parked'
      from unknown
     where live.id = any (array(select unknown.id from unknown))
       and live.id = unknown.id
       and live.queue = :queue::text
       and (live.state = 'ready') is true
    returning live.id, live.queue, live.type
),
counted as (
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(), count(*), 'parked', parked.queue, parked.type
      from parked
     group by parked.queue, parked.type
)
select count(*) as parked
  from parked
