-- Delete finished tasks for good, with their history and the keys that name them.
-- takes:   ids bigint[]
-- returns: id
-- locks:   the finished rows, skip locked; then the keys, in their order as every enqueue takes them
-- index:   finished_pkey, payload_pkey, attempt_pkey, key_pkey
with picked as materialized (
    select finished.id, finished.queue, finished.key, finished.keep_until, finished.payload is null as is_apart
      from wherry.finished
     where finished.id = any (:ids::bigint[])
       for update skip locked
),
gone as (
    delete from wherry.finished
     using picked
     where finished.id = any (:ids::bigint[])
       and finished.id = picked.id
       and finished.queue = picked.queue
       and finished.keep_until = picked.keep_until
    returning finished.id, finished.queue, finished.type, finished.state
),
counted as (
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(), count(*), 'left_' || gone.state, gone.queue, gone.type
      from gone
     group by gone.state, gone.queue, gone.type
),
emptied as (
    delete from wherry.payload
     using picked
     where payload.task_id = any (:ids::bigint[])
       and payload.task_id = picked.id
       and payload.queue = picked.queue
       and picked.is_apart
),
forgotten as (
    delete from wherry.attempt
     using picked
     where attempt.task_id = any (:ids::bigint[])
       and attempt.task_id = picked.id
       and attempt.queue = picked.queue
),
named as materialized (
    select key.queue, key.key, key.task_id
      from picked
      join wherry.key
        on key.queue = picked.queue
       and key.key = picked.key
       and key.task_id = picked.id
     where key.queue = any (array(select distinct picked.queue from picked))
       and key.key = any (array(select picked.key from picked))
     order by key.queue, key.key
       for update of key
),
freed as (
    delete from wherry.key
     using named
     where key.queue = any (array(select distinct named.queue from named))
       and key.key = any (array(select named.key from named))
       and key.queue = named.queue
       and key.key = named.key
       and key.task_id = named.task_id
)
select gone.id from gone
