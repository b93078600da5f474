-- The days of finished: made ahead, dropped when their retention is over.
-- Locks: none that anybody could be waiting for; every object is new.

-- Make the partitions of finished for the days ahead. Workers have no DDL rights: this runs as the
-- owner and can do nothing else. A day that cannot be attached within 50 ms is left for the next call.
create function wherry.make_days() returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '50ms'
    as $$
declare
    -- The schema may have any name: ask the catalog which one this table lives in.
    home text := (select n.nspname from wherry.settings s
                    join pg_class c on c.oid = s.tableoid
                    join pg_namespace n on n.oid = c.relnamespace);
    today date := (wherry.now() at time zone 'UTC')::date;
    longest interval := (select greatest(keep_succeeded, keep_failed) from wherry.settings);
    last_day date := least(today + longest + interval '14 days', today + interval '400 days')::date;
    day date;
    name text;
    made integer := 0;
begin
    -- One maker at a time; the others have nothing to add.
    if not pg_try_advisory_xact_lock(hashtext('wherry.make_days'), hashtext(home)) then
        return 0;
    end if;
    for day in select today + n from generate_series(0, last_day - today) as n loop
        name := 'finished_' || to_char(day, 'YYYYMMDD');
        continue when to_regclass(format('%I.%I', home, name)) is not null;
        begin
            execute format('create table %I.%I (like %I.finished including defaults including constraints)', home, name, home);
            -- What was finished before anybody made this day. From here on nothing more may arrive there:
            -- a single late row would refuse the new partition, and under load there always is one.
            execute format('lock table %I.finished_default in access exclusive mode', home);
            execute format(
                'with late as (delete from %I.finished_default where keep_until >= %L and keep_until < %L returning *)'
                ' insert into %I.%I select * from late',
                home, day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00', home, name);
            execute format('alter table %I.finished attach partition %I.%I for values from (%L) to (%L)',
                home, home, name, day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00');
            made := made + 1;
        exception when lock_not_available then
            return made;
        end;
    end loop;
    return made;
end
$$;

-- Forget what retention no longer asks for: one partition whose day is over, with the attempts and
-- keys of its tasks, at most *batch* rows of each a call. Returns whether there is more to do.
-- Rows that somebody else has locked (a task that is being requeued, a key that is being taken over) are
-- left for the next call, and the partition with them.
-- A plain DROP behind an idle reader stalled every completion for as long as the reader sat there, and
-- DETACH CONCURRENTLY cannot run for a worker without DDL rights: so the drop waits 50 ms at most.
create function wherry.drop_past_days(batch integer) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '50ms'
    -- A batch is reached by looking from the day's tasks for their keys, never by reading all keys.
    set enable_nestloop = on
    set enable_hashjoin = off
    set enable_mergejoin = off
    as $$
declare
    home text := (select n.nspname from wherry.settings s
                    join pg_class c on c.oid = s.tableoid
                    join pg_namespace n on n.oid = c.relnamespace);
    today text := to_char(wherry.now() at time zone 'UTC', 'YYYYMMDD');
    past text;
    counted bigint;
    touched bigint := 0;
    held boolean;
begin
    if not pg_try_advisory_xact_lock(hashtext('wherry.drop_past_days'), hashtext(home)) then
        return false;
    end if;
    past := (select c.relname from pg_inherits i
               join pg_class c on c.oid = i.inhrelid
               join pg_namespace n on n.oid = c.relnamespace
              where i.inhparent = (select p.oid from pg_class p
                                    where p.relname = 'finished' and p.relnamespace = c.relnamespace)
                and n.nspname = home
                and c.relname ~ '^finished_[0-9]{8}$'
                and c.relname < 'finished_' || today
              order by c.relname
              limit 1);
    if past is null then
        begin
            with old as materialized (
                delete from wherry.finished_default f
                 where f.ctid = any (array(select d.ctid from wherry.finished_default d
                                            where d.keep_until < wherry.now() limit batch for update skip locked))
                returning f.id, f.queue, f.key
            ), forgotten as (
                delete from wherry.attempt a using old where a.task_id = old.id and a.queue = old.queue
            ), freed as (
                delete from wherry.key k using old where k.queue = old.queue and k.key = old.key and k.task_id = old.id
            )
            select count(*) into touched from old;
            return touched = batch;
        exception when lock_not_available then
            return false;
        end;
    end if;
    -- Locking the finished rows too keeps a requeue from bringing a task back between look and delete.
    execute format(
        'with old as materialized (select a.task_id, a.queue, a.token from %I.attempt a'
        ' join %I.%I f on f.id = a.task_id and f.queue = a.queue limit $1 for update skip locked)'
        ' delete from %I.attempt a using old where a.task_id = old.task_id and a.queue = old.queue and a.token = old.token',
        home, home, past, home) using batch;
    get diagnostics counted = row_count;
    touched := touched + counted;
    execute format(
        'with old as materialized (select k.queue, k.key, k.task_id from %I.key k'
        ' join %I.%I f on f.queue = k.queue and f.key = k.key and f.id = k.task_id limit $1 for update skip locked)'
        ' delete from %I.key k using old where k.queue = old.queue and k.key = old.key and k.task_id = old.task_id',
        home, home, past, home) using batch;
    get diagnostics counted = row_count;
    touched := touched + counted;
    if touched > 0 then
        return true;
    end if;
    execute format(
        'select exists (select from %I.attempt a join %I.%I f on f.id = a.task_id and f.queue = a.queue)'
        ' or exists (select from %I.key k join %I.%I f on f.queue = k.queue and f.key = k.key and f.id = k.task_id)',
        home, home, past, home, home, past) into held;
    if held then
        return false;
    end if;
    begin
        execute format('drop table %I.%I', home, past);
    exception when lock_not_available then
        -- Somebody is reading it: no harm in keeping it until the next pass.
        return false;
    end;
    return true;
end
$$;

revoke all on function wherry.make_days() from public;
revoke all on function wherry.drop_past_days(integer) from public;

select wherry.make_days();
