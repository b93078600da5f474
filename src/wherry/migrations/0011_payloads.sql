-- Large payloads apart from their tasks, so that they are written once and do not move when a task ends.
-- Locks: wherry.live, wherry.finished with its days, and wherry.settings, access exclusive, for a moment; no row of
-- them is read or rewritten but the one of settings.

-- A payload that is written here is written once. Its task's own payload is null then, in live as in finished; whoever
-- deletes the task for good deletes this row in the same statement.
create table wherry.payload (
    task_id bigint not null,
    queue text not null,
    nth integer not null,
    piece bytea not null,
    primary key (task_id, queue, nth)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
-- Compressed if that helps, but never out of line.
alter table wherry.payload alter column piece set storage main;

-- squawk-ignore ban-drop-not-null
alter table wherry.live alter column payload drop not null;
-- squawk-ignore ban-drop-not-null
alter table wherry.finished alter column payload drop not null;

-- The code of one migration earlier runs here too, and would lease a task without a payload. So nothing is stored apart
-- where such code may have been at work, until the owner says that none is left.
alter table wherry.settings add column payloads_apart boolean not null default true;
update wherry.settings
   set payloads_apart = not (select drawn.is_called from wherry.task_id drawn)
                        and not exists (select from wherry.worker);

-- Store a large payload apart, and answer with what its task has in its stead: nothing. Where settings do not allow it,
-- answer with the payload. For enqueuers, who may look at none of this. *again*: of a call that is sent again, whose
-- payload may be there already; else the same id was drawn twice, and that is an error.
create function wherry.put_apart(id bigint, queue text, payload json, again boolean) returns json
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    whole constant bytea := convert_to(put_apart.payload::text, 'UTF8');
    last constant integer := (octet_length(whole) - 1) / 4000;
begin
    if not (select s.payloads_apart from wherry.settings s) then
        return put_apart.payload;
    end if;
    if put_apart.again then
        insert into wherry.payload (task_id, queue, nth, piece)
        select put_apart.id, put_apart.queue, n.nth, substring(whole from n.nth * 4000 + 1 for 4000)
          from generate_series(0, last) as n (nth)
            on conflict (task_id, queue, nth) do nothing;
    else
        insert into wherry.payload (task_id, queue, nth, piece)
        select put_apart.id, put_apart.queue, n.nth, substring(whole from n.nth * 4000 + 1 for 4000)
          from generate_series(0, last) as n (nth);
    end if;
    return null;
end
$$;
revoke all on function wherry.put_apart(bigint, text, json, boolean) from public;

-- How many bytes a payload has that stands apart. A function, so that statements pay for it only where there is one.
create function wherry.payload_bytes(id bigint, queue text) returns bigint
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    as $$
begin
    return (
        select sum(octet_length(p.piece))
          from wherry.payload p
         where p.task_id = payload_bytes.id
           and p.queue = payload_bytes.queue
    );
end
$$;
revoke all on function wherry.payload_bytes(bigint, text) from public;

create or replace view wherry.tasks as
select live.id,
       live.queue,
       live.type,
       coalesce(
           live.payload,
           (
               select convert_from(string_agg(p.piece, '' order by p.nth), 'UTF8')
                 from wherry.payload p
                where p.task_id = live.id
                  and p.queue = live.queue
           )::json
       )::jsonb as payload,
       case when live.state = 'leased' then 'leased' else 'queued' end as state,
       live.priority::integer as priority,
       live.attempts,
       live.max_attempts,
       live.run_after,
       lease.worker as lease_owner,
       lease.expires_at as lease_expires_at,
       live.token as lease_token,
       live.key,
       live.tags,
       live.headers::jsonb as headers,
       null::jsonb as result,
       live.cancel_reason as reason,
       live.last_error,
       live.created_at,
       live.leased_at as started_at,
       null::timestamptz as finished_at,
       live.cancel_requested_at
  from wherry.live
  left join lateral (
       select l.worker, l.expires_at
         from wherry.lease l
        where live.state = 'leased'
          and l.lease_id = live.lease_id
          and (not l.split or live.id = any (l.task_ids))
        limit 1
  ) as lease on true
union all
select finished.id,
       finished.queue,
       finished.type,
       coalesce(
           finished.payload,
           (
               select convert_from(string_agg(p.piece, '' order by p.nth), 'UTF8')
                 from wherry.payload p
                where p.task_id = finished.id
                  and p.queue = finished.queue
           )::json
       )::jsonb,
       finished.state,
       finished.priority::integer,
       finished.attempts,
       finished.max_attempts,
       finished.run_after,
       finished.worker,
       null::timestamptz,
       finished.token,
       finished.key,
       finished.tags,
       finished.headers::jsonb,
       finished.result::jsonb,
       finished.reason,
       finished.last_error,
       finished.created_at,
       finished.leased_at,
       finished.finished_at,
       null::timestamptz
  from wherry.finished;

-- Forget what retention no longer asks for: one partition whose day is over, with the attempts, keys
-- and payloads of its tasks, at most *batch* rows of each a call. Returns whether there is more to do.
-- Rows that somebody else has locked (a task that is being requeued, a key that is being taken over) are
-- left for the next call, and the partition with them. What is forgotten is counted as no longer there: a whole day
-- by reading it once, while nobody can requeue or purge any of it.
-- A plain DROP behind an idle reader stalled every completion for as long as the reader sat there, and
-- DETACH CONCURRENTLY cannot run for a worker without DDL rights: so the drop waits 50 ms at most.
create or replace function wherry.drop_past_days(batch integer) returns boolean
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
    -- A task whose payload stands apart goes with it, in one statement: brought back by a requeue in between, it would
    -- have none. What has its own payload is another task, if a payload of its id is there.
    execute format(
        'with old as materialized (select p.task_id, p.queue, f.keep_until from %I.payload p'
        ' join %I.%I f on f.id = p.task_id and f.queue = p.queue where p.nth = 0 and f.payload is null'
        ' limit $1 for update skip locked),'
        ' gone as (delete from %I.%I f using old where f.id = old.task_id and f.queue = old.queue'
        ' and f.keep_until = old.keep_until and f.payload is null returning f.id, f.queue, f.type, f.state),'
        ' counted as (insert into %I.flow (at, n, kind, queue, type)'
        ' select %I.now(), count(*), ''left_'' || gone.state, gone.queue, gone.type'
        ' from gone group by gone.state, gone.queue, gone.type)'
        ' delete from %I.payload p using gone where p.task_id = gone.id and p.queue = gone.queue',
        home, home, past, home, past, home, home, home) using batch;
    get diagnostics counted = row_count;
    if counted > 0 then
        return true;
    end if;
    begin
        execute format('lock table %I.%I in share mode', home, past);
        execute format(
            'select exists (select from %I.payload p'
            ' join %I.%I f on f.id = p.task_id and f.queue = p.queue where f.payload is null)',
            home, home, past) into held;
        if held then
            return false;
        end if;
        perform set_config('enable_seqscan', 'on', true);
        execute format(
            'insert into %I.flow (at, n, kind, queue, type)'
            ' select %I.now(), count(*), ''left_'' || f.state, f.queue, f.type from %I.%I f group by f.state, f.queue, f.type',
            home, home, home, past);
        execute format('drop table %I.%I', home, past);
    exception when lock_not_available then
        -- Somebody is reading it: no harm in keeping it until the next pass.
        return false;
    end;
    return true;
end
$$;

-- The same, but large payloads stand apart.
create or replace function wherry.enqueue(
    queue text,
    type text,
    payload jsonb default '{}',
    key text default null,
    priority integer default 0,
    delay interval default null,
    run_after timestamptz default null,
    max_attempts integer default 20,
    key_ttl interval default null,
    timeout interval default null,
    ttl interval default null,
    retry jsonb default null,
    tags text[] default null,
    headers jsonb default null,
    notify boolean default true,
    out id bigint,
    out created boolean,
    out payload_matches boolean
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    hash bytea;
    new_id bigint;
    due timestamptz := coalesce(enqueue.run_after, wherry.now() + coalesce(enqueue.delay, interval '0'));
    old wherry.key;
    seen bigint;
    alive boolean;
    stored json := enqueue.payload;
begin
    perform wherry.check_task(
        enqueue.queue, enqueue.type, enqueue.payload, enqueue.key, enqueue.priority, enqueue.delay, enqueue.run_after,
        enqueue.max_attempts, enqueue.key_ttl, enqueue.timeout, enqueue.ttl, enqueue.retry, enqueue.tags,
        enqueue.headers);
    new_id := nextval('wherry.task_id'::regclass);
    enqueue.id := new_id;
    enqueue.created := true;
    if enqueue.key is not null then
        hash := sha256(convert_to(enqueue.type || ' ' || enqueue.payload::text, 'UTF8'));
        select k.* into old from wherry.key k where k.queue = enqueue.queue and k.key = enqueue.key;
        if found then
            select exists (select from wherry.live l where l.id = old.task_id and l.queue = old.queue)
                or exists (select from wherry.finished f
                            where f.id = old.task_id and f.queue = old.queue
                              and coalesce(f.key_until, f.keep_until) > wherry.now())
              into alive;
            if alive then
                enqueue.id := old.task_id;
                enqueue.created := false;
                enqueue.payload_matches := old.payload_hash = hash;
                return;
            end if;
            seen := old.stamp;
        end if;
        insert into wherry.key as held (queue, key, task_id, stamp, seen_stamp, payload_hash)
        values (enqueue.queue, enqueue.key, new_id, nextval('wherry.position'::regclass), seen, hash)
            on conflict (queue, key) do update
           set task_id = case when held.stamp = excluded.seen_stamp then excluded.task_id else held.task_id end,
               payload_hash = case when held.stamp = excluded.seen_stamp then excluded.payload_hash else held.payload_hash end,
               stamp = case when held.stamp = excluded.seen_stamp then excluded.stamp else held.stamp end,
               seen_stamp = null
        returning held.* into old;
        enqueue.payload_matches := old.payload_hash = hash;
        if old.task_id <> new_id then
            enqueue.id := old.task_id;
            enqueue.created := false;
            return;
        end if;
    end if;
    -- From as many characters on as the library; and as before for roles that were granted their rights before.
    if length(stored::text) > 2000 and exists (
        select from pg_proc p
          join pg_class c on c.relnamespace = p.pronamespace
         where c.oid = 'wherry.payload'::regclass
           and p.proname = 'put_apart'
           and has_function_privilege(p.oid, 'execute')
    ) then
        stored := wherry.put_apart(new_id, enqueue.queue, stored, false);
    end if;
    insert into wherry.live (
        id, position, created_at, run_after, discard_at, timeout_seconds, ttl_seconds, key_ttl_seconds,
        max_attempts, priority, state, queue, type, key, tags, headers, retry, payload
    )
    values (
        new_id, nextval('wherry.position'::regclass), wherry.now(), due, wherry.now() + enqueue.ttl,
        extract(epoch from enqueue.timeout), extract(epoch from enqueue.ttl), extract(epoch from enqueue.key_ttl),
        enqueue.max_attempts, enqueue.priority, case when due > wherry.now() then 'delayed' else 'ready' end,
        enqueue.queue, enqueue.type, enqueue.key,
        -- Each once, in their order.
        (select array_agg(each.tag order by each.place)
           from (select t.tag, min(t.place) as place
                   from unnest(enqueue.tags) with ordinality as t (tag, place)
                  group by t.tag) as each),
        enqueue.headers::json, enqueue.retry::json, stored
    );
    insert into wherry.flow (at, n, kind, queue, type)
    values (
        wherry.now(), 1, case when due > wherry.now() then 'enqueued_delayed' else 'enqueued' end,
        enqueue.queue, enqueue.type
    );
    if enqueue.notify and due < wherry.now() + interval '5 seconds' and exists (
        select from wherry.waiting w
         where w.queue in (enqueue.queue, '')
           and w.expires_at > wherry.now()
    ) then
        perform pg_notify((select s.channel from wherry.settings s), enqueue.queue);
    end if;
end
$$;
