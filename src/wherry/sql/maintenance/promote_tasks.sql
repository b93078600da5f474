-- Move delayed tasks whose time has come among the ready ones, and tell when the next one is due.
-- takes:   batch integer
-- returns: promoted (how many), next_in (seconds until the next delayed task is due,
--          null if none), woken (how many notifications)
-- locks:   the promoted rows, skip locked
-- index:   live_delayed, live_pkey
with due as materialized (
    select live.id, live.queue
      from wherry.live
     where live.state = 'delayed'
       and live.run_after <= wherry.now()
     order by live.run_after
     limit :batch::integer
       for update skip locked
),
moved as (
    update wherry.live
       set state = 'ready',
           position = nextval('wherry.position'::regclass)
      from due
     where live.id = any (array(select due.id from due))
       and live.id = due.id
       and live.queue = due.queue
       and (live.state = 'delayed') is true
    returning live.id, live.queue, live.type
),
counted as (
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(), -count(*), 'delayed', moved.queue, moved.type
      from moved
     group by moved.queue, moved.type
),
arrived as (
    select distinct moved.queue
      from moved
),
-- part: woken
select (select count(*) from moved) as promoted,
       (select extract(epoch from live.run_after - wherry.now())::double precision
          from wherry.live
         where live.state = 'delayed'
           and live.run_after > wherry.now()
         order by live.run_after
         limit 1) as next_in,
       (select count(*) from woken) as woken
