-- Enqueue from plain SQL and from triggers.
-- Locks: none that anybody could be waiting for; every object is new.

-- The public door for plain SQL and triggers. It checks what the library checks, in its own words, and
-- keeps the same rules for keys (sql/tasks/enqueue_tasks.sql is the library's form).
create function wherry.enqueue(
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
        enqueue.headers::json, enqueue.retry::json, enqueue.payload::json
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

-- What the library checks at its own door, for those who come in through SQL. SQLSTATE 22023 on refusal.
create function wherry.check_task(
    queue text, type text, payload jsonb, key text, priority integer, delay interval, run_after timestamptz,
    max_attempts integer, key_ttl interval, timeout interval, ttl interval, retry jsonb, tags text[],
    headers jsonb
) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
    as $$
declare
    -- Not [[:cntrl:]], which depends on the database's locale.
    control constant text := '[\u0001-\u001f\u007f-\u009f]';
    -- A hundred years. Longer ones, and moments that Python has no word for, make a row that nobody can
    -- read or finish.
    longest constant double precision := 36525 * 86400.0;
    refused text;
begin
    refused := case
        when check_task.queue is null or check_task.queue = '' or octet_length(check_task.queue) > 255 or check_task.queue ~ control
            then 'queue: 1 to 255 bytes without control characters'
        when check_task.queue = '*'
            then 'queue: "*" stands for all queues'
        when check_task.type is null or check_task.type = '' or octet_length(check_task.type) > 255 or check_task.type ~ control
            then 'type: 1 to 255 bytes without control characters'
        when check_task.payload is null or jsonb_typeof(check_task.payload) <> 'object'
            then 'payload: a JSON object'
        when octet_length(check_task.payload::text) > 1048576
            then 'payload: ' || octet_length(check_task.payload::text) || ' bytes are over the limit of 1048576'
        when check_task.key is not null and (check_task.key = '' or octet_length(check_task.key) > 512)
            then 'key: 1 to 512 bytes'
        when check_task.priority is null or check_task.priority not between -100 and 100
            then 'priority: -100 to 100'
        when check_task.delay is not null and check_task.run_after is not null
            then 'delay and run_after: give one of them'
        when extract(epoch from check_task.delay) not between 0 and longest
            then 'delay: 0 to a hundred years'
        when check_task.run_after not between '0001-01-02 00:00:00+00' and '9999-12-30 00:00:00+00'
            then 'run_after: a moment within the years 1 to 9999'
        when check_task.max_attempts is null or check_task.max_attempts not between 1 and 32767
            then 'max_attempts: 1 to 32767'
        when extract(epoch from check_task.key_ttl) not between 0 and longest
            then 'key_ttl: 0 to a hundred years'
        when check_task.timeout <= interval '0' or extract(epoch from check_task.timeout) > longest
            then 'timeout: more than 0, at most a hundred years'
        when check_task.ttl <= interval '0' or extract(epoch from check_task.ttl) > longest
            then 'ttl: more than 0, at most a hundred years'
        when check_task.retry is not null and not coalesce(
                case check_task.retry ->> 'kind'
                    when 'full_jitter' then array['base', 'cap']
                    when 'additive' then array['base', 'jitter', 'cap']
                    when 'fixed' then array['delay']
                end <@ (
                    select array_agg(e.key)
                      from jsonb_each(case when jsonb_typeof(check_task.retry) = 'object' then check_task.retry else '{}' end) as e
                     where case when jsonb_typeof(e.value) = 'number' then e.value::numeric between 0 and longest else false end
                ), false)
            then 'retry: {"kind": "full_jitter", "base": s, "cap": s}, {"kind": "additive", "base": s, "jitter": s, "cap": s}'
                ' or {"kind": "fixed", "delay": s}, in seconds'
        when array_ndims(check_task.tags) > 1 or (select count(distinct t.tag) from unnest(check_task.tags) as t (tag)) > 32 or exists (
                select from unnest(check_task.tags) as t (tag)
                 where t.tag is null or t.tag = '' or octet_length(t.tag) > 255 or t.tag ~ control)
            then 'tags: at most 32, each 1 to 255 bytes without control characters'
        when check_task.headers is not null and jsonb_typeof(check_task.headers) <> 'object' or exists (
                select from jsonb_each(case when jsonb_typeof(check_task.headers) = 'object' then check_task.headers else '{}' end) as e
                 where e.key = '' or e.key ~ control or jsonb_typeof(e.value) <> 'string')
            then 'headers: a JSON object of strings, named without control characters'
        when (select sum(octet_length(e.key) + octet_length(e.value))
                from jsonb_each_text(case when jsonb_typeof(check_task.headers) = 'object' then check_task.headers else '{}' end) as e) > 8192
            then 'headers: at most 8192 bytes'
        end;
    if refused is not null then
        raise exception using errcode = '22023', message = 'wherry.enqueue: ' || refused;
    end if;
    -- Deeper or longer than this is stored without complaint, and kills whoever reads it.
    if exists (
        with recursive inside (value, depth) as (
            select check_task.payload, 1
             union all
            select child.value, inside.depth + 1
              from inside
             cross join lateral (
                   select e.value from jsonb_each(case when jsonb_typeof(inside.value) = 'object' then inside.value else '{}' end) as e
                    union all
                   select a.value from jsonb_array_elements(case when jsonb_typeof(inside.value) = 'array' then inside.value else '[]' end) as a (value)
             ) as child
             where inside.depth <= 64
               and jsonb_typeof(inside.value) in ('object', 'array')
        )
        select from inside
         where (inside.depth > 64 and jsonb_typeof(inside.value) in ('object', 'array'))
            or (jsonb_typeof(inside.value) = 'number' and length(ltrim(inside.value::text, '-')) > 1000)
            or case when jsonb_typeof(inside.value) = 'number' and strpos(inside.value::text, '.') > 309
                    then abs(inside.value::numeric) >= 1.7976931348623158e308
                    else false end
    ) then
        raise exception using errcode = '22023',
            message = 'wherry.enqueue: payload: at most 64 levels, integers of at most 1000 digits, other numbers within a float';
    end if;
end
$$;

-- Take back tasks of an enqueue that was sent again, if they had arrived, run and finished in between.
-- For enqueuers, who may not delete: it touches only tasks that nobody has leased, whose id has finished.
create function wherry.forget_resent(ids bigint[]) returns setof bigint
    language sql security definer
    set search_path = pg_catalog, pg_temp
    as $$
    delete from wherry.live
     using wherry.finished
     where live.id = any (ids)
       and finished.id = any (ids)
       and finished.id = live.id
       and finished.queue = live.queue
       and live.token = 0
    returning live.id
$$;

revoke all on function wherry.forget_resent(bigint[]) from public;
revoke all on function wherry.check_task(text, text, jsonb, text, integer, interval, timestamptz, integer, interval, interval, interval, jsonb, text[], jsonb) from public;
revoke all on function wherry.enqueue(text, text, jsonb, text, integer, interval, timestamptz, integer, interval, interval, interval, jsonb, text[], jsonb, boolean) from public;
