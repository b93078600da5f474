-- Bring back parked tasks whose type some live worker knows now, and is not paused. The queues of a type that have parked
-- tasks are named by jumping from one to the next in the index, so that what is paused in one of them is not walked; and so
-- are the types, for a worker that knows any.
-- takes:   batch integer
-- returns: unparked (how many), woken (how many notifications)
-- locks:   the rows, skip locked
-- index:   live_parked_in_queue, live_pkey, paused_type_pkey
with recursive hop as (
    (select live.type
       from wherry.live
      where live.state = 'parked'
        and exists (select from wherry.worker where worker.types is null and worker.expires_at > wherry.now())
      order by live.type
      limit 1)
     union all
    select (select live.type
              from wherry.live
             where live.state = 'parked'
               and live.type > hop.type
             order by live.type
             limit 1)
      from hop
     where hop.type is not null
),
known as materialized (
    select n.type
      from wherry.worker
     cross join lateral unnest(worker.types) as n (type)
     where worker.expires_at > wherry.now()
     union
    select hop.type
      from hop
     where hop.type is not null
),
-- No further than the batch asks for.
place as (
    select known.type,
           (select live.queue
              from wherry.live
             where live.state = 'parked'
               and live.type = known.type
             order by live.queue
             limit 1) as queue
      from known
     where not exists (
           select from wherry.paused_type
            where paused_type.type = known.type
              and paused_type.queue = ''
           offset 0
           )
     union all
    select place.type,
           (select live.queue
              from wherry.live
             where live.state = 'parked'
               and live.type = place.type
               and live.queue > place.queue
             order by live.queue
             limit 1)
      from place
     where place.queue is not null
),
back as materialized (
    select found.id, found.queue
      from place
     cross join lateral (
           select live.id, live.queue
             from wherry.live
            where live.state = 'parked'
              and live.type = place.type
              and live.queue = place.queue
            limit :batch::integer
              for update skip locked
     ) as found
     where not exists (
           select from wherry.paused_type
            where paused_type.type = place.type
              and paused_type.queue = place.queue
           offset 0
           )
     limit :batch::integer
),
moved as (
    update wherry.live
       set state = 'ready',
           position = nextval('wherry.position'::regclass)
      from back
     where live.id = any (array(select back.id from back))
       and live.id = back.id
       and live.queue = back.queue
       and (live.state = 'parked') is true
    returning live.queue, live.type
),
counted as (
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(), -count(*), 'parked', moved.queue, moved.type
      from moved
     group by moved.queue, moved.type
),
arrived as (
    select distinct moved.queue
      from moved
),
-- part: woken
select (select count(*) from moved) as unparked,
       (select count(*) from woken) as woken
