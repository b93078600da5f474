-- Let a queue have no limits, and have everybody look at it again.
-- takes:   queue text
-- returns: changed (how many: 0 if it had none), woken (how many notifications)
-- locks:   the row of the queue: waits for leases that are under way
-- index:   limited_pkey
with changed as (
    delete from wherry.limited
     where limited.queue = :queue::text
    returning limited.queue
)
select (select count(*) from changed) as changed,
       (select count(pg_notify(settings.channel, '')) from wherry.settings where exists (select from changed)) as woken
