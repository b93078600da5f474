-- What to do if the database has gone back in time, so that ids of tasks are drawn a second time.
-- Locks: wherry.live, access exclusive, for a moment; no row is read or written.
-- wherry: works from 9

-- A token begins with a number that only the call knows which stored the task, and then grows by one with each lease:
-- so a call that is sent again can tell its own tasks from others that have their ids. What has the right to store tasks
-- must not store one whose next lease overflows.
alter table wherry.live
    add constraint live_token_in_range check (token between 0 and 4611686018427387904) not valid;

-- After an enqueue was sent again: take back what had already arrived, run and finished in between, and refuse the call
-- as a whole (23505 of live_pkey, as for a call that is sent once) if one of its ids names a task of others. For
-- enqueuers, who may neither delete nor look: it touches only what this very transaction has stored.
-- Code of before uses forget_resent, which stays for it.
-- A row that left live for finished was committed there before ours could be stored, so this newer statement sees it.
create function wherry.settle_resent(ids bigint[], token bigint) returns setof bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    -- More leases than a task can have had between two sendings.
    last_token constant bigint := settle_resent.token + 65535;
begin
    return query
    with again as (
        delete from wherry.live
         using wherry.finished
         where live.id = any (settle_resent.ids)
           and finished.id = any (settle_resent.ids)
           and finished.id = live.id
           and finished.queue = live.queue
           and finished.token between settle_resent.token and last_token
           and live.token = settle_resent.token
           and live.xmin = pg_current_xact_id()::xid
        returning live.id, live.queue, live.type, live.state
    ),
    -- They were counted when they came, in this transaction.
    counted as (
        insert into wherry.flow (at, n, kind, queue, type)
        select wherry.now(), -count(*), case when again.state = 'delayed' then 'enqueued_delayed' else 'enqueued' end,
               again.queue, again.type
          from again
         group by again.state, again.queue, again.type
    )
    select again.id from again;
    if exists (
        select from (
            select l.id from wherry.live l
             where l.id = any (settle_resent.ids) and l.token not between settle_resent.token and last_token
             union all
            select f.id from wherry.finished f
             where f.id = any (settle_resent.ids) and f.token not between settle_resent.token and last_token
        ) as of_others
         -- Where ours had arrived at the first time it stays, whatever else has its id.
         where not exists (
                   select from wherry.live l
                    where l.id = of_others.id
                      and l.token between settle_resent.token and last_token
                      and (l.xmin <> pg_current_xact_id()::xid or l.token <> settle_resent.token)
               )
           and not exists (
                   select from wherry.finished f
                    where f.id = of_others.id and f.token between settle_resent.token and last_token
               )
    ) then
        raise unique_violation using
            message = 'an id of these tasks was drawn a second time, and names a task of others',
            table = 'live', constraint = 'live_pkey';
    end if;
end
$$;

-- Move the sequence of ids past every task there is, if it is behind one: after a restore without sequences, or where a
-- logical replica has become the server. Answers from where it goes on, or null if it is in order. Anybody may ask.
create function wherry.catch_up_ids() returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    as $$
declare
    home text := (select n.nspname from wherry.settings s
                    join pg_class c on c.oid = s.tableoid
                    join pg_namespace n on n.oid = c.relnamespace);
    drawn bigint := (select last_value from wherry.task_id);
    highest bigint;
    moved bigint;
begin
    -- In a database that is in order this looks at the end of each index, where nothing is.
    if not exists (select from wherry.live l where l.id > drawn)
        and not exists (select from wherry.finished f where f.id > drawn)
    then
        return null;
    end if;
    perform pg_advisory_xact_lock(hashtext('wherry.catch_up_ids'), hashtext(home));
    highest := (select greatest(
        (select max(l.id) from wherry.live l),
        (select max(f.id) from wherry.finished f)
    ));
    -- So far beyond that what others draw between the look and the step cannot be drawn again.
    moved := (select setval('wherry.task_id'::regclass, highest + 1000000)
                from wherry.task_id s
               where s.last_value < highest);
    return moved;
end
$$;

revoke all on function wherry.settle_resent(bigint[], bigint) from public;
revoke all on function wherry.catch_up_ids() from public;
