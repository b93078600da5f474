-- Put finished tasks back into their queue, or into another one: attempts start again, token and history are kept.
-- A task whose key meanwhile names another one that has not ended is left alone. Without its key a task
-- also gives up one that is still its own: nothing would free it later. A patch is merged into each payload here, where
-- its task is locked, so that what it is merged into is what was stored; a task of which that makes no payload is left
-- alone, for itself.
-- takes:   ids bigint[], without_key boolean, delay_seconds double precision (how long the first waits), step_seconds
--          double precision (how much longer each of the next does, the oldest first), to_queue text (null: each into
--          its own; else without_key has to be said, since a key is of one queue), merge_payload json (null: payloads
--          stay what they are), limit_bytes integer (how long one may be that was merged)
-- returns: id, answer (queued, key_taken, no_object, too_large), taken_by, key, woken
-- locks:   the finished rows, skip locked; the keys in their order
-- index:   finished_pkey, key_pkey, live_pkey, payload_pkey, attempt_pkey
with locked as materialized (
    select finished.id, finished.queue, finished.key, finished.type, finished.keep_until, finished.payload,
           coalesce(:to_queue::text, finished.queue) as to_queue, finished.payload is null as is_apart
      from wherry.finished
     where finished.id = any (:ids::bigint[])
     order by finished.queue, finished.key, finished.id
       for update skip locked
),
merged as materialized (
    select task.id,
           wherry.merge_payload(
               coalesce(
                   task.payload,
                   -- part: payload_apart
               ),
               :merge_payload::json
           ) as payload
      from locked task
     where :merge_payload::json is not null
),
picked as materialized (
    select locked.id, locked.queue, locked.key, locked.type, locked.keep_until, locked.payload, locked.to_queue,
           locked.is_apart, merged.payload as merged,
           length(merged.payload::text) > 2000 and (select s.payloads_apart from wherry.settings s) as goes_apart,
           (octet_length(merged.payload::text) - 1) / 4000 as last_nth
      from locked
      left join merged
        on merged.id = locked.id
     where :merge_payload::json is null
        or octet_length(merged.payload::text) <= :limit_bytes::integer
),
-- Of two tasks of this call with the same key only the newest may have it.
heirs as materialized (
    select distinct on (task.queue, task.key)
           task.id, task.queue, task.key,
           -- A payload is read only if it is another one now, or for a key that somebody else has had meanwhile.
           case when key.task_id = task.id and task.merged is null then key.payload_hash
                else wherry.payload_hash(
                    task.type,
                    coalesce(
                        task.merged,
                        task.payload,
                        -- part: payload_apart
                    )
                )
                 end as payload_hash,
           key.task_id as named_id,
           key.stamp as named_stamp
      from picked task
      left join lateral (
           select k.task_id, k.stamp, k.payload_hash
             from wherry.key k
            where k.queue = task.queue
              and k.key = task.key
            limit 1
      ) as key on true
     where task.key is not null
       and not :without_key::boolean
     order by task.queue, task.key, task.id desc
),
standing as materialized (
    select heirs.id, heirs.queue, heirs.key, heirs.payload_hash, heirs.named_id, heirs.named_stamp,
           heirs.named_id is not null
               and heirs.named_id <> heirs.id
               and (exists (
                       select from wherry.live
                        where live.id = heirs.named_id
                          and live.queue = heirs.queue
                       offset 0
                   ) or exists (
                       select from wherry.finished
                        where finished.id = heirs.named_id
                          and finished.queue = heirs.queue
                          and coalesce(finished.key_until, finished.keep_until) > wherry.now()
                       offset 0
                   )) as taken
      from heirs
),
taken as (
    insert into wherry.key as held (queue, key, task_id, stamp, seen_stamp, payload_hash)
    select standing.queue, standing.key, standing.id, nextval('wherry.position'::regclass), standing.named_stamp, standing.payload_hash
      from standing
     where not standing.taken
     order by standing.queue, standing.key
        on conflict (queue, key) do update
       set task_id = case when held.stamp = excluded.seen_stamp then excluded.task_id else held.task_id end,
           payload_hash = case when held.stamp = excluded.seen_stamp then excluded.payload_hash else held.payload_hash end,
           stamp = case when held.stamp = excluded.seen_stamp then excluded.stamp else held.stamp end,
           seen_stamp = null
    returning held.queue, held.key, held.task_id
),
named as (
    select taken.queue, taken.key, taken.task_id from taken
     union all
    select standing.queue, standing.key, standing.named_id from standing where standing.taken
),
gone as (
    delete from wherry.finished
     using picked
     where finished.id = any (:ids::bigint[])
       and finished.id = picked.id
       and finished.queue = picked.queue
       and finished.keep_until = picked.keep_until
       and (picked.key is null
            or :without_key::boolean
            or exists (
                select from named
                 where named.queue = picked.queue
                   and named.key = picked.key
                   and named.task_id = picked.id
            ))
    returning finished.id, finished.token, finished.created_at, finished.timeout_seconds,
              finished.ttl_seconds, finished.key_ttl_seconds, finished.max_attempts, finished.priority,
              finished.queue, finished.type, finished.key, finished.tags, finished.headers,
              finished.retry, finished.last_error, finished.state, picked.to_queue, picked.is_apart, picked.merged,
              picked.goes_apart, picked.last_nth,
              case when picked.merged is null then finished.payload
                   when not picked.goes_apart then picked.merged
                    end as payload
),
-- What belongs to a task has its queue, too.
pieces as (
    update wherry.payload
       set queue = gone.to_queue
      from gone
     where payload.task_id = any (:ids::bigint[])
       and payload.task_id = gone.id
       and payload.queue = gone.queue
       and gone.is_apart
       and gone.merged is null
       and gone.queue <> gone.to_queue
       and :to_queue::text is not null
),
-- Of pieces that stay in their place none is deleted, and of those that are deleted none is written.
cut as (
    delete from wherry.payload
     using gone
     where payload.task_id = any (:ids::bigint[])
       and payload.task_id = gone.id
       and payload.queue = gone.queue
       and gone.is_apart
       and gone.merged is not null
       and not (gone.goes_apart and gone.queue = gone.to_queue and payload.nth <= gone.last_nth)
       and :merge_payload::json is not null
),
written as (
    insert into wherry.payload as p (task_id, queue, nth, piece)
    select gone.id, gone.to_queue, n.nth, substring(gone.merged_bytes from n.nth * 4000 + 1 for 4000)
      from (
           select g.id, g.to_queue, g.last_nth, convert_to(g.merged::text, 'UTF8') as merged_bytes
             from gone g
            where g.goes_apart
           offset 0
      ) as gone
     cross join generate_series(0, gone.last_nth) as n (nth)
     where :merge_payload::json is not null
        on conflict (task_id, queue, nth) do update
       set piece = excluded.piece
),
history as (
    update wherry.attempt
       set queue = gone.to_queue
      from gone
     where attempt.task_id = any (:ids::bigint[])
       and attempt.task_id = gone.id
       and attempt.queue = gone.queue
       and gone.queue <> gone.to_queue
       and :to_queue::text is not null
),
due as (
    select gone.id,
           :delay_seconds::double precision
               + (row_number() over (order by gone.id) - 1) * :step_seconds::double precision as wait_seconds
      from gone
),
counted as (
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(), count(*), moved.kind, moved.queue, gone.type
      from gone
      join due
        on due.id = gone.id
     cross join lateral (
           values ('requeued', gone.to_queue), ('left_' || gone.state, gone.queue),
                  (case when due.wait_seconds > 0 then 'delayed' end, gone.to_queue)
     ) as moved (kind, queue)
     where moved.kind is not null
     group by moved.kind, moved.queue, gone.type
),
placed as (
    insert into wherry.live (
           id, position, token, created_at, run_after, discard_at, timeout_seconds, ttl_seconds,
           key_ttl_seconds, max_attempts, priority, state, queue, type, key, tags, headers, retry,
           payload, last_error
    )
    select gone.id, nextval('wherry.position'::regclass), gone.token, gone.created_at,
           wherry.now() + due.wait_seconds * interval '1 second',
           wherry.now() + (due.wait_seconds + gone.ttl_seconds) * interval '1 second', gone.timeout_seconds,
           gone.ttl_seconds,
           -- A finished task is kept as long as its key, which this one has no more.
           case when :without_key::boolean then null else gone.key_ttl_seconds end,
           gone.max_attempts, gone.priority,
           case when due.wait_seconds > 0 then 'delayed' else 'ready' end, gone.to_queue, gone.type,
           case when :without_key::boolean then null else gone.key end, gone.tags, gone.headers,
           gone.retry, gone.payload, gone.last_error
      from gone
      join due
        on due.id = gone.id
    returning live.id, live.queue, live.state
),
named_by as materialized (
    select key.queue, key.key, key.task_id
      from picked
      join wherry.key
        on key.queue = picked.queue
       and key.key = picked.key
       and key.task_id = picked.id
     where key.queue = any (array(select distinct picked.queue from picked))
       and key.key = any (array(select picked.key from picked))
       and :without_key::boolean
     order by key.queue, key.key
       for update of key
),
freed as (
    delete from wherry.key
     using named_by
     where key.queue = any (array(select distinct named_by.queue from named_by))
       and key.key = any (array(select named_by.key from named_by))
       and key.queue = named_by.queue
       and key.key = named_by.key
       and key.task_id = named_by.task_id
),
arrived as (
    select distinct placed.queue
      from placed
     where placed.state = 'ready'
),
-- part: woken
select locked.id,
       case when placed.id is not null then 'queued'
            when picked.id is not null then 'key_taken'
            when merged.payload is null then 'no_object'
            else 'too_large'
             end as answer,
       case when picked.id is not null and placed.id is null then named.task_id end as taken_by,
       locked.key,
       (select count(*) from woken) as woken
  from locked
  left join merged
    on merged.id = locked.id
  left join picked
    on picked.id = locked.id
  left join placed
    on placed.id = locked.id
  left join named
    on named.queue = locked.queue
   and named.key = locked.key
