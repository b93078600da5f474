-- Forget workers that have not been heard of for a day, and marks of waiting ones a minute after their end.
-- takes:   batch integer
-- returns: instance
-- locks:   their rows, skip locked
-- index:   none: both tables hold one row a worker
with silent as materialized (
    select worker.instance
      from wherry.worker
     where worker.expires_at < wherry.now() - interval '1 day'
     limit :batch::integer
       for update skip locked
),
stale as materialized (
    select waiting.queue, waiting.instance
      from wherry.waiting
     where waiting.expires_at < wherry.now() - interval '1 minute'
     limit :batch::integer
       for update skip locked
),
quiet as (
    delete from wherry.waiting
     using stale
     where waiting.queue = stale.queue
       and waiting.instance = stale.instance
)
delete from wherry.worker
 using silent
 where worker.instance = silent.instance
returning worker.instance::text
