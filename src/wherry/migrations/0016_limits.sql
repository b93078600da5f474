-- Limits of queues: how many of a queue's tasks may be leased at once, and how many may start in a time.
-- Locks: wherry.lease, share, for a moment: it holds a row for each batch in somebody's hands.

-- Who leases from a limited queue holds its row until the lease is committed, so of two that lease at once the second
-- sees what the first has leased. How many run is counted from the leases themselves, never kept here. The code of
-- one migration earlier knows of no limits, and keeps none.
create table wherry.limited (
    queue text primary key,
    -- Null: any number.
    max_running integer,
    -- So many starts in so many seconds; null: any number. The credit is how many may start at once: it was so when it
    -- was noted, grows with the time and is never more than the burst.
    rate integer,
    per_seconds double precision,
    burst integer,
    credit double precision not null,
    noted_at timestamptz not null,
    constraint limited_queue_is_named check (queue <> '' and octet_length(queue) <= 255),
    constraint limited_is_limited check (max_running is not null or rate is not null),
    constraint limited_max_running_in_range check (max_running between 1 and 1000000),
    constraint limited_rate_is_whole check (num_nulls(rate, per_seconds, burst) in (0, 3)),
    constraint limited_rate_in_range check (rate between 1 and 1000000),
    constraint limited_per_seconds_in_range check (per_seconds between 0.001 and 31622400),
    constraint limited_burst_in_range check (burst between 1 and 1000000)
) with (fillfactor = 20, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

-- The leases of a queue. It is small, and one row in it stands for a whole batch. Nobody else asks so, and nobody
-- else's plan shall be led astray by it: hence an expression.
-- squawk-ignore require-concurrent-index-creation
create index lease_by_queue on wherry.lease ((queue || ''));

-- How many tasks may start now. It has no SET clause so that it inlines, as wherry.now().
create function wherry.credit(limited wherry.limited) returns double precision
    language sql stable parallel safe
    as $$
        select least(
                   limited.burst,
                   limited.credit + limited.rate / limited.per_seconds
                       * greatest(0, pg_catalog.date_part('epoch', wherry.now() - limited.noted_at))
               )
    $$;

-- How many tasks of a queue are leased, and as many as *most* at most: those whose lease ran out too, until they are
-- taken back, and those that an open transaction is completing.
create function wherry.running_in(queue text, most integer) returns integer
    language sql stable
    set search_path = pg_catalog, pg_temp
    as $$
        select count(*)::integer
          from (
               select
                 from wherry.live
                where live.id = any (array(
                          select n.task_id
                            from wherry.lease
                           cross join lateral unnest(lease.task_ids) as n (task_id)
                           where lease.queue || '' = running_in.queue
                      ))
                  and live.queue = running_in.queue
                  and live.state = 'leased'
                limit running_in.most
          ) as running
    $$;

-- Whether nothing may start. Who finds out so has no right to anything: room_in says what may be leased.
create function wherry.is_full(limited wherry.limited) returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp
    as $$
        select coalesce(wherry.credit(limited) < 1, false)
               or coalesce(wherry.running_in(limited.queue, limited.max_running) >= limited.max_running, false)
    $$;

-- How many tasks of a limited queue may be leased now. Whoever asks holds the queue's row from then on until its
-- transaction ends; each query in here sees what was committed before that. While somebody else has held the row for
-- longer than a lease takes, there is no room: no worker hangs on it.
create function wherry.room_in(queue text) returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '250ms'
    as $$
#variable_conflict use_column
declare
    own wherry.limited;
    room integer;
begin
    if current_setting('transaction_isolation') not like 'read %' then
        raise exception 'the queue % has limits, so it can be leased from in a transaction of the level read committed only',
            quote_literal(room_in.queue)
            using errcode = 'feature_not_supported';
    end if;
    select l.queue, l.max_running, l.rate, l.per_seconds, l.burst, l.credit, l.noted_at
      into own
      from wherry.limited l
     where l.queue = room_in.queue
       for update skip locked;
    if not found then
        begin
            select l.queue, l.max_running, l.rate, l.per_seconds, l.burst, l.credit, l.noted_at
              into own
              from wherry.limited l
             where l.queue = room_in.queue
               for update;
        exception
            when lock_not_available then
                return 0;
        end;
        if not found then
            -- They were lifted meanwhile.
            return null;
        end if;
    end if;
    if own.rate is not null then
        if own.noted_at > wherry.now() + interval '10 seconds' then
            -- The clock was set back. By less, it is somebody who came later and was quicker.
            update wherry.limited
               set noted_at = wherry.now()
             where limited.queue = own.queue;
        end if;
        room := floor(wherry.credit(own))::integer;
    end if;
    if own.max_running is not null then
        room := least(room, own.max_running - wherry.running_in(own.queue, own.max_running));
    end if;
    return room;
end
$$;

-- Note that tasks of a limited queue start. Only for who holds its row (room_in), in the same transaction.
create function wherry.note_starts(queue text, starts integer) returns boolean
    language sql
    set search_path = pg_catalog, pg_temp
    as $$
        update wherry.limited
           set credit = wherry.credit(limited) - note_starts.starts,
               noted_at = greatest(limited.noted_at, wherry.now())
         where limited.queue = note_starts.queue
           and limited.rate is not null
           and note_starts.starts > 0;
        select true;
    $$;

revoke all on function wherry.credit(wherry.limited), wherry.running_in(text, integer),
    wherry.is_full(wherry.limited), wherry.room_in(text), wherry.note_starts(text, integer) from public;
