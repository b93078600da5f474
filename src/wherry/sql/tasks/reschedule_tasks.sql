-- Let queued tasks run at another time: ready at once if that has come, else delayed until then. What is parked and
-- due stays parked; what workers have is left alone.
-- takes:   ids bigint[], run_after timestamptz (null: the delay counts), delay_seconds double precision
-- returns: id, answer (changed, leased: also what somebody else has in hand just now), woken (how many notifications);
--          nothing of an id that is not live
-- locks:   the queued rows, skip locked
-- index:   live_pkey
with mine as materialized (
    select live.id, live.queue, live.type, live.state, live.position, due.run_after
      from wherry.live
     cross join lateral (
           -- A time that has come is now: from then on it counts how long a task waits.
           select greatest(
                      wherry.now(),
                      coalesce(
                          :run_after::timestamptz,
                          wherry.now() + :delay_seconds::double precision * interval '1 second'
                      )
                  ) as run_after
     ) as due
     where live.id = any (:ids::bigint[])
       and (live.state <> 'leased') is true
     order by live.id
       for update of live skip locked
),
placed as materialized (
    select moving.id, moving.queue, moving.type, moving.was, moving.state, moving.run_after,
           nextval('wherry.position'::regclass) as position
      from (select mine.id, mine.queue, mine.type, mine.state as was, mine.run_after,
                   case when mine.run_after > wherry.now() then 'delayed'
                        when mine.state = 'parked' then 'parked'
                        else 'ready'
                         end as state
              from mine
             order by mine.position) as moving
),
moved as (
    update wherry.live
       set state = placed.state,
           run_after = placed.run_after,
           position = placed.position
      from placed
     where live.id = any (array(select placed.id from placed))
       and live.id = placed.id
       and live.queue = placed.queue
       and (live.state <> 'leased') is true
    returning live.queue, live.state
),
counted as (
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(), sum(changed.n), changed.state, placed.queue, placed.type
      from placed
     cross join lateral (values (placed.was, -1), (placed.state, 1)) as changed (state, n)
     where changed.state in ('delayed', 'parked')
     group by changed.state, placed.queue, placed.type
    having sum(changed.n) <> 0
),
arrived as (
    select distinct moved.queue
      from moved
     where moved.state = 'ready'
),
-- part: woken
select live.id,
       case when mine.id is null then 'leased' else 'changed' end as answer,
       (select count(*) from woken) as woken
  from wherry.live
  left join mine
    on mine.id = live.id
 where live.id = any (:ids::bigint[])
