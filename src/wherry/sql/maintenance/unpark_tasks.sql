-- Bring back parked tasks whose type some live worker knows now, and is not paused. For one that knows any type the parked
-- types are named by jumping from one to the next in the index.
-- takes:   batch integer
-- returns: unparked (how many), woken (how many notifications)
-- locks:   the rows, skip locked
-- index:   live_parked, live_pkey, paused_type_pkey
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
back as materialized (
    select live.id, live.queue
      from wherry.live
     where live.state = 'parked'
       and live.type = any (array(
               select known.type
                 from known
                where not exists (
                      select from wherry.paused_type
                       where paused_type.type = known.type
                         and paused_type.queue = ''
                      offset 0
                      )
           ))
       and not exists (
           select from wherry.paused_type
            where paused_type.type = live.type
              and paused_type.queue = live.queue
           offset 0
           )
     limit :batch::integer
       for update skip locked
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
