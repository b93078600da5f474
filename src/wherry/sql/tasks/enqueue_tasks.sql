-- Store tasks, and wake the idle workers of their queues. A task whose key already names one that
-- has not ended is not stored again. If the task of any key has left live, that key is answered as
-- ended and nothing at all is stored: resolve_keys.sql tells whether such a key is still taken, and
-- then the same tasks come again with what was seen (seen_stamp, seen_taken). So whatever is stored is
-- stored by one statement, which takes the keys in one order.
-- takes:   tasks text, a json array of (id, queue, type, payload, priority, delay_seconds, run_after,
--          max_attempts, key, key_ttl_seconds, seen_stamp, seen_taken, retry, timeout_seconds,
--          ttl_seconds, tags, headers); large text, true or false (true: there are large payloads); token text (with which theirs begin); notify text, true or false; last text,
--          true or false (true: no look will follow, a key that changes all the time is answered by whatever it names
--          now); resent text, true or false (true: what has such an id already may be this very task)
-- returns: answers (a json array in the order of the tasks, of [id, created, payload_matches (null
--          without a key), ended]), woken (how many notifications), strange (how many ids name tasks of others,
--          which were drawn ahead before the database went back in time; then nothing is stored); all are text,
--          since a caller's driver may read no other type as we do
-- locks:   the keys, in their order; waits for an open transaction that stores the same key
-- index:   key_pkey, live_pkey
with asked as materialized (
    select t.ord,
           coalesce(t.id, nextval('wherry.task_id'::regclass)) as id,
           t.id as given_id,
           t.queue,
           t.type,
           t.payload,
           t.priority,
           coalesce(t.run_after, wherry.now() + coalesce(t.delay_seconds, 0) * interval '1 second') as run_after,
           t.max_attempts,
           t.key,
           t.key_ttl_seconds,
           t.seen_stamp,
           t.seen_taken,
           t.retry,
           t.timeout_seconds,
           t.ttl_seconds,
           t.tags,
           t.headers,
           case when t.key is not null
                then sha256(convert_to(t.type || ' ' || t.payload::jsonb::text, 'UTF8'))
                 end as payload_hash
      from rows from (
           json_to_recordset(:tasks::text::json) as (
               id bigint, queue text, type text, payload json, priority smallint,
               delay_seconds double precision, run_after timestamptz, max_attempts integer,
               key text, key_ttl_seconds double precision, seen_stamp bigint, seen_taken boolean,
               retry json, timeout_seconds double precision, ttl_seconds double precision, tags text[],
               headers json
           )
      ) with ordinality as t (
               id, queue, type, payload, priority, delay_seconds, run_after, max_attempts, key,
               key_ttl_seconds, seen_stamp, seen_taken, retry, timeout_seconds, ttl_seconds, tags,
               headers, ord
      )
),
strange as materialized (
    select asked.ord
      from asked
     where not :resent::text::boolean
       and exists (
           select from wherry.live l
            where l.id = asked.given_id
              and l.queue = asked.queue
           offset 0
       )
),
firsts as materialized (
    select distinct on (asked.queue, asked.key)
           asked.id, asked.queue, asked.key, asked.seen_stamp, asked.seen_taken, asked.payload_hash
      from asked
     where asked.key is not null
     order by asked.queue, asked.key, asked.ord
),
seen as materialized (
    select firsts.id,
           firsts.queue,
           firsts.key,
           firsts.payload_hash,
           firsts.seen_stamp,
           key.task_id as named_id,
           key.payload_hash as named_hash,
           case when key.task_id is null then 'free'
                when live.id is not null or key.task_id = firsts.id then 'taken'
                when key.stamp = firsts.seen_stamp and not firsts.seen_taken then 'free'
                when key.stamp = firsts.seen_stamp or :last::text::boolean then 'taken'
                else 'ended'
                 end as standing
      from firsts
      left join lateral (
           select k.task_id, k.payload_hash, k.stamp
             from wherry.key k
            where k.queue = firsts.queue
              and k.key = firsts.key
            limit 1
      ) as key on true
      left join lateral (
           select l.id
             from wherry.live l
            where l.id = key.task_id
              and l.queue = firsts.queue
            limit 1
      ) as live on true
),
taken as (
    insert into wherry.key as held (queue, key, task_id, stamp, seen_stamp, payload_hash)
    select seen.queue, seen.key, seen.id, nextval('wherry.position'::regclass), seen.seen_stamp, seen.payload_hash
      from seen
     where seen.standing = 'free'
       and not exists (select from seen where seen.standing = 'ended')
       and not exists (select from strange)
     order by seen.queue, seen.key
        on conflict (queue, key) do update
       set task_id = case when held.stamp = excluded.seen_stamp then excluded.task_id else held.task_id end,
           payload_hash = case when held.stamp = excluded.seen_stamp then excluded.payload_hash else held.payload_hash end,
           stamp = case when held.stamp = excluded.seen_stamp then excluded.stamp else held.stamp end,
           seen_stamp = null
    returning held.queue, held.key, held.task_id, held.payload_hash
),
named as (
    select queue, key, task_id, payload_hash, false as ended from taken
     union all
    select queue, key, named_id, named_hash, standing = 'ended' from seen where standing <> 'free'
),
arriving as materialized (
    select asked.ord
      from asked
      left join named
        on named.queue = asked.queue
       and named.key = asked.key
     where (named.task_id is null or named.task_id = asked.id)
       and not exists (select from seen where seen.standing = 'ended')
       and not exists (select from strange)
),
placed as (
    insert into wherry.live (
           id, position, token, key, key_ttl_seconds, payload,
           created_at, run_after, discard_at, timeout_seconds, ttl_seconds, max_attempts, priority, state, queue, type, tags,
           headers, retry
    )
    select asked.id,
           nextval('wherry.position'::regclass),
           :token::text::bigint,
           asked.key,
           asked.key_ttl_seconds,
           case when :large::text = 'true' and length(asked.payload::text) > 2000
                then wherry.put_apart(asked.id, asked.queue, asked.payload, false)
                else asked.payload
                 end,
           -- part: as_asked
      from asked
     where not :resent::text::boolean
       and asked.ord in (select arriving.ord from arriving)
     order by asked.ord
    returning live.id, live.queue, live.run_after
),
placed_again as (
    insert into wherry.live (
           id, position, token, key, key_ttl_seconds, payload,
           created_at, run_after, discard_at, timeout_seconds, ttl_seconds, max_attempts, priority, state, queue, type, tags,
           headers, retry
    )
    select asked.id,
           nextval('wherry.position'::regclass),
           :token::text::bigint,
           asked.key,
           asked.key_ttl_seconds,
           case when :large::text = 'true' and length(asked.payload::text) > 2000
                then wherry.put_apart(asked.id, asked.queue, asked.payload, true)
                else asked.payload
                 end,
           -- part: as_asked
      from asked
     where :resent::text::boolean
       and asked.ord in (select arriving.ord from arriving)
     order by asked.ord
        -- The same call sent again, since its answer was lost: settle_resent.sql looks whose it is.
        on conflict (id, queue) do nothing
    returning live.id, live.queue, live.run_after
),
came as (
    select placed.id, placed.queue, placed.run_after from placed
     union all
    select placed_again.id, placed_again.queue, placed_again.run_after from placed_again
),
counted as (
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(), count(*),
           case when came.run_after > wherry.now() then 'enqueued_delayed' else 'enqueued' end as kind,
           asked.queue, asked.type
      from came
      join asked
        on asked.id = came.id
     group by kind, asked.queue, asked.type
),
arrived as (
    select distinct came.queue
      from came
     where :notify::text::boolean
       and came.run_after < wherry.now() + interval '5 seconds'
),
-- part: woken
select coalesce(
           json_agg(
               json_build_array(
                   coalesce(named.task_id, asked.id),
                   coalesce(named.task_id = asked.id, true),
                   named.payload_hash = asked.payload_hash,
                   coalesce(named.ended, false)
               )
               order by asked.ord
           )::text,
           '[]'
       ) as answers,
       (select count(*) from woken)::text as woken,
       (select count(*) from strange)::text as strange
  from asked
  left join named
    on named.queue = asked.queue
   and named.key = asked.key
