-- Set the limits of a queue, and have everybody look at it again. What it may start at once is its burst at first; of a
-- rate that is set anew no more than there was.
-- takes:   queue text, max_running integer, rate integer, per_seconds double precision, burst integer (null: no limit)
-- returns: changed (how many: 0 if its limits were the same), woken (how many notifications)
-- locks:   the row of the queue: waits for leases that are under way
-- index:   limited_pkey
with changed as (
    insert into wherry.limited (queue, max_running, rate, per_seconds, burst, credit, noted_at)
    values (
           :queue::text, :max_running::integer, :rate::integer, :per_seconds::double precision, :burst::integer,
           coalesce(:burst::integer, 0), wherry.now()
           )
        on conflict (queue) do update
       set max_running = excluded.max_running,
           rate = excluded.rate,
           per_seconds = excluded.per_seconds,
           burst = excluded.burst,
           credit = least(wherry.credit(limited), excluded.credit),
           noted_at = excluded.noted_at
     where (limited.max_running, limited.rate, limited.per_seconds, limited.burst)
           is distinct from (excluded.max_running, excluded.rate, excluded.per_seconds, excluded.burst)
    returning limited.queue
)
select (select count(*) from changed) as changed,
       -- To all: who waits has to know from now on whether it waits for the time.
       (select count(pg_notify(settings.channel, '')) from wherry.settings where exists (select from changed)) as woken
