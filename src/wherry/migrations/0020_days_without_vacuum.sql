-- Let no day of finished be vacuumed for what was stored there.
-- Locks: each day of wherry.finished, share update exclusive, for a moment: it stops neither readers nor writers.

-- A day is written once, seldom read, and dropped as a whole. Nothing is dead there but what was requeued or purged, which
-- counts as ever, as does the age of transactions. Vacuum after so many inserts would read a day anew whenever it has
-- grown by a fifth, only to note which of its pages everybody may see.
do $$
declare
    day regclass;
begin
    for day in select i.inhrelid from pg_inherits i join pg_class c on c.oid = i.inhrelid
                where i.inhparent = 'wherry.finished'::regclass and c.relname ~ '^finished_[0-9]{8}$'
                order by c.relname
    loop
        execute format('alter table %s set (autovacuum_vacuum_insert_threshold = -1)', day);
    end loop;
end
$$;

-- Make the partitions of finished for the days ahead. Workers have no DDL rights: this runs as the
-- owner and can do nothing else. A day that cannot be attached within 50 ms is left for the next call.
create or replace function wherry.make_days() returns integer
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
            execute format(
                'create table %I.%I (like %I.finished including defaults including constraints)'
                ' with (autovacuum_vacuum_insert_threshold = -1)',
                home, name, home);
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
