-- Days that are over go piece by piece, from a table of their own that nobody else looks at; and a recount waits for another.
-- Locks: none that anybody could be waiting for; the table is new, and functions are replaced.
-- Code from before 0011, which would lease a task whose payload stands apart without it, and fail of that, does not start
-- here any more: this file promises that code of one file earlier works, and no other.

-- A day that is over and is no day of finished any more: requeues and purges do not see it, so that it can be gone
-- through for as long as that takes, by whoever comes. Up to which task has been done already is kept here: by its
-- key, which is the same after a dump and a restore. What comes behind is counted as being there still.
create table wherry.past_day (
    name text primary key,
    done_id bigint not null default -9223372036854775808,
    done_queue text not null default '',
    done_keep_until timestamptz not null default '-infinity'
);

-- How many tasks are left of such days, in the snapshot of who asks.
create function wherry.count_past_days() returns table (queue text, type text, state text, n bigint)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    home text := (select n.nspname from wherry.settings s
                    join pg_class c on c.oid = s.tableoid
                    join pg_namespace n on n.oid = c.relnamespace);
    past wherry.past_day;
begin
    for past in select p.* from wherry.past_day p loop
        return query execute format(
            'select f.queue, f.type, f.state, count(*) from %I.%I f'
            ' where (f.id, f.queue, f.keep_until) > ($1, $2, $3) group by f.queue, f.type, f.state',
            home, past.name) using past.done_id, past.done_queue, past.done_keep_until;
    end loop;
end
$$;
revoke all on function wherry.count_past_days() from public;

-- Forget what retention no longer asks for, at most *batch* tasks a call; returns whether there is more to do.
-- The oldest day that is over is taken out of finished, which looks at none of its tasks. From then on it belongs to
-- this function alone, which goes through it once, from call to call: with each task go its attempts, its payload if
-- that stands apart, and the key that still names it, and it is counted as no longer there. Then the table is dropped.
-- Whoever is kept waiting for a lock gives up after 50 ms and leaves it to the next call: behind an idle reader a day
-- that is taken out would stall every completion for as long as the reader sits there, and a key that is being taken over
-- may be anybody's for hours. (DETACH CONCURRENTLY cannot run in a function, and workers have no DDL rights.)
create or replace function wherry.drop_past_days(batch integer) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '50ms'
    -- Each task is reached by its key, and looks for what is its own by its key, whatever is known of the tables' sizes.
    set enable_seqscan = off
    set enable_sort = off
    set enable_nestloop = on
    set enable_hashjoin = off
    set enable_mergejoin = off
    as $$
declare
    home text := (select n.nspname from wherry.settings s
                    join pg_class c on c.oid = s.tableoid
                    join pg_namespace n on n.oid = c.relnamespace);
    today text := to_char(wherry.now() at time zone 'UTC', 'YYYYMMDD');
    past wherry.past_day;
    day text;
    touched bigint;
begin
    if not pg_try_advisory_xact_lock(hashtext('wherry.drop_past_days'), hashtext(home)) then
        return false;
    end if;
    select p.* into past from wherry.past_day p order by p.name limit 1;
    if not found then
        day := (select right(c.relname, 8) from pg_inherits i
                  join pg_class c on c.oid = i.inhrelid
                  join pg_namespace n on n.oid = c.relnamespace
                 where i.inhparent = (select p.oid from pg_class p
                                       where p.relname = 'finished' and p.relnamespace = c.relnamespace)
                   and n.nspname = home
                   and c.relname ~ '^finished_[0-9]{8}$'
                   and c.relname < 'finished_' || today
                 order by c.relname
                 limit 1);
        if day is not null then
            execute format('alter table %I.finished detach partition %I.%I', home, home, 'finished_' || day);
            execute format('alter table %I.%I rename to %I', home, 'finished_' || day, 'past_' || day);
            insert into wherry.past_day (name) values ('past_' || day);
            return true;
        end if;
        -- What no day was made for in time.
        with old as materialized (
            delete from wherry.finished_default f
             where f.ctid = any (array(select d.ctid from wherry.finished_default d
                                        where d.keep_until < wherry.now() limit batch for update skip locked))
            returning f.id, f.queue, f.type, f.state, f.key, f.payload is null as is_apart
        ), emptied as (
            delete from wherry.payload p using old where p.task_id = old.id and p.queue = old.queue and old.is_apart
        ), counted as (
            insert into wherry.flow (at, n, kind, queue, type)
            select wherry.now(), count(*), 'left_' || old.state, old.queue, old.type
              from old group by old.state, old.queue, old.type
        ), forgotten as (
            delete from wherry.attempt a using old where a.task_id = old.id and a.queue = old.queue
        ), freed as (
            delete from wherry.key k using old where k.queue = old.queue and k.key = old.key and k.task_id = old.id
        )
        select count(*) into touched from old;
        return touched = batch;
    end if;
    -- A null payload says that it stands apart: else what is there of that id is another task's.
    execute format(
        'with old as materialized (select f.id, f.queue, f.keep_until, f.type, f.state, f.key, f.payload is null as is_apart'
        ' from %I.%I f where (f.id, f.queue, f.keep_until) > ($1, $2, $3) order by f.id, f.queue, f.keep_until limit $4),'
        ' emptied as (delete from %I.payload p using old where p.task_id = old.id and p.queue = old.queue and old.is_apart),'
        ' counted as (insert into %I.flow (at, n, kind, queue, type)'
        ' select %I.now(), count(*), ''left_'' || old.state, old.queue, old.type from old group by old.state, old.queue, old.type),'
        ' forgotten as (delete from %I.attempt a using old where a.task_id = old.id and a.queue = old.queue),'
        ' freed as (delete from %I.key k using old where k.queue = old.queue and k.key = old.key and k.task_id = old.id),'
        ' moved as (update %I.past_day p set done_id = o.id, done_queue = o.queue, done_keep_until = o.keep_until'
        ' from (select old.id, old.queue, old.keep_until from old'
        ' order by old.id desc, old.queue desc, old.keep_until desc limit 1) as o where p.name = $5)'
        ' select count(*) from old',
        home, past.name, home, home, home, home, home, home)
        into touched
        using past.done_id, past.done_queue, past.done_keep_until, batch, past.name;
    if touched < batch then
        begin
            execute format('drop table %I.%I', home, past.name);
            delete from wherry.past_day p where p.name = past.name;
        exception when lock_not_available then
            -- Whoever reads it (a dump) has no part in the batch that was done.
            return false;
        end;
    end if;
    return true;
exception when lock_not_available then
    return false;
end
$$;

-- See that the sums say how many tasks there are, by counting all of them and adding what is missing to the flow;
-- returns how many sums were wrong. Tasks, flow and sums are looked at in one snapshot, in which they have to agree
-- exactly, whatever goes on meanwhile. They do not if somebody has changed tasks who does not count: an older version
-- of the code, or a hand in the database. One at a time.
create or replace function wherry.recount() returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    -- Whole tables are read here, which our sessions are told never to do.
    set enable_seqscan = on
    as $$
declare
    home text := (select n.nspname from wherry.settings s
                    join pg_class c on c.oid = s.tableoid
                    join pg_namespace n on n.oid = c.relnamespace);
    wrong integer;
begin
    -- One at a time: the next looks at what this one has corrected. A row's lock, so that this holds at any level of
    -- isolation: where the snapshot is older than the lock, PostgreSQL refuses the update.
    update wherry.chore set done_at = wherry.now() where chore.name = 'recount';
    -- What is left of a past day may not be dropped under our feet.
    perform pg_advisory_xact_lock(hashtext('wherry.drop_past_days'), hashtext(home));
    with there as materialized (
        select live.queue, live.type, live.state, count(*) as n from wherry.live group by 1, 2, 3
         union all
        select finished.queue, finished.type, finished.state, count(*) from wherry.finished group by 1, 2, 3
         union all
        select rest.queue, rest.type, rest.state, rest.n from wherry.count_past_days() as rest
    ),
    counted as materialized (
        select pair.queue, pair.type, tally.kind, tally.n
          from wherry.tally
          join wherry.pair on pair.id = tally.pair
         where tally.kind not in ('wait', 'run')
           and (tally.step = 'ever'
                or (tally.step = 'minute'
                    and tally.at >= (select chore.folded_until from wherry.chore where chore.name = 'roll')))
         union all
        select flow.queue, flow.type, flow.kind, flow.n from wherry.flow
    ),
    -- What adds to which sum; the sums of final states have what left them taken off.
    entry (queue, type, state, n) as (
        select there.queue, there.type, 'live', there.n from there where there.state in ('ready', 'delayed', 'parked', 'leased')
         union all
        select there.queue, there.type, there.state, there.n from there where there.state not in ('ready', 'leased')
         union all
        select counted.queue, counted.type, moved.state, -moved.sign * counted.n
          from counted
         cross join lateral (
               values ('live', case when counted.kind in ('enqueued', 'enqueued_delayed', 'requeued', 'live') then 1
                                    when counted.kind in ('succeeded', 'failed', 'dead', 'canceled') then -1 end),
                      ('delayed', case when counted.kind = 'delayed' or counted.kind like '%\_delayed' then 1 end),
                      ('parked', case when counted.kind = 'parked' then 1 end),
                      (replace(counted.kind, 'left_', ''),
                       case when counted.kind in ('succeeded', 'failed', 'dead', 'canceled') then 1
                            when counted.kind like 'left\_%' then -1 end)
         ) as moved (state, sign)
         where moved.sign is not null
    ),
    -- As the roller does: those that are not told apart stand together.
    named as (
        select coalesce(pair.queue, case when full_up.yes then '' else entry.queue end) as queue,
               coalesce(pair.type, case when full_up.yes then '' else entry.type end) as type,
               entry.state, entry.n
          from entry
         cross join (select count(*) > 1000 as yes from wherry.pair) as full_up
          left join wherry.pair on pair.queue = entry.queue and pair.type = entry.type
    ),
    missing as (
        select named.queue, named.type, named.state, sum(named.n) as n
          from named
         group by 1, 2, 3
        having sum(named.n) <> 0
    )
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(),
           case when missing.state in ('live', 'delayed', 'parked') then missing.n else -missing.n end,
           case when missing.state in ('live', 'delayed', 'parked') then missing.state else 'left_' || missing.state end,
           missing.queue, missing.type
      from missing;
    get diagnostics wrong = row_count;
    return wrong;
end
$$;
