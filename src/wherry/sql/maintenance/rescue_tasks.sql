-- Give ready tasks that stand in front of their queue's front a place behind it. Nothing in Wherry puts a task there; a
-- hand in the database can, and the task must not wait for ever. It walks past whatever is dead there, so it runs rarely.
-- takes:   queues text[], highs smallint[], lows smallint[], starts bigint[] (a stretch each), batch integer
-- returns: rescued (how many), woken (how many notifications)
-- locks:   the rows, skip locked
-- index:   live_ready, live_pkey
with stray as materialized (
    select found.id, found.queue
      from unnest(:queues::text[], :highs::smallint[], :lows::smallint[], :starts::bigint[])
           as stretch (queue, high, low, start)
     cross join lateral (
           select live.id, live.queue
             from wherry.live
            where live.queue = stretch.queue
              and live.state = 'ready'
              and live.priority between stretch.low and stretch.high
              and live.position < stretch.start
            order by live.priority desc, live.position
            limit :batch::integer
              for update skip locked
     ) as found
     limit :batch::integer
),
moved as (
    update wherry.live
       set position = nextval('wherry.position'::regclass)
      from stray
     where live.id = any (array(select stray.id from stray))
       and live.id = stray.id
       and live.queue = stray.queue
       and (live.state = 'ready') is true
    returning live.queue
),
arrived as (
    select distinct moved.queue
      from moved
),
-- part: woken
select (select count(*) from moved) as rescued,
       (select count(*) from woken) as woken
