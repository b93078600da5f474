-- Resume a paused queue, and wake those who wait for its tasks.
-- takes:   queue text
-- returns: resumed (how many: 0 if it was not paused), woken (how many notifications)
-- locks:   the row of the queue
-- index:   paused_pkey
with arrived as (
    delete from wherry.paused
     where paused.queue = :queue::text
    returning paused.queue
),
-- part: woken
select (select count(*) from arrived) as resumed,
       (select count(*) from woken) as woken
