-- Resume a paused type, and wake those who wait for tasks where it is ready.
-- takes:   type text, queue text (as it was paused; empty: in all of them)
-- returns: resumed (how many: 0 if it was not paused so), woken (how many notifications)
-- locks:   the row of type and queue
-- index:   paused_type_pkey
with resumed as (
    delete from wherry.paused_type
     where paused_type.type = :type::text
       and paused_type.queue = :queue::text
    returning paused_type.queue
),
arrived as (
    select resumed.queue from resumed where resumed.queue <> ''
     union
    select waiting.queue
      from wherry.waiting
     where exists (select from resumed where resumed.queue = '')
       and waiting.expires_at > wherry.now()
),
-- part: woken
select (select count(*) from resumed) as resumed,
       (select count(*) from woken) as woken
