-- Give queued tasks another priority: behind those that have it already, in the order in which they stand now. What
-- workers have is left alone.
-- takes:   ids bigint[], priority integer
-- returns: id, answer (changed, leased: also what somebody else has in hand just now); nothing of an id that is not live
-- locks:   the queued rows, skip locked
-- index:   live_pkey
with mine as materialized (
    select live.id, live.queue, live.priority, live.position
      from wherry.live
     where live.id = any (:ids::bigint[])
       and (live.state <> 'leased') is true
     order by live.id
       for update skip locked
),
-- A front is true of the positions that were drawn before it: whoever comes to another stretch draws a new one.
placed as materialized (
    select moving.id, moving.queue, nextval('wherry.position'::regclass) as position
      from (select mine.id, mine.queue
              from mine
             where mine.priority <> :priority::integer
             order by mine.priority desc, mine.position) as moving
),
moved as (
    update wherry.live
       set priority = :priority::integer,
           position = placed.position
      from placed
     where live.id = any (array(select placed.id from placed))
       and live.id = placed.id
       and live.queue = placed.queue
       and (live.state <> 'leased') is true
    returning live.id
)
select live.id,
       case when mine.id is null then 'leased' else 'changed' end as answer
  from wherry.live
  left join mine
    on mine.id = live.id
 where live.id = any (:ids::bigint[])
