-- Forget fronts that have been replaced for a minute, and all of a queue that has had no new one for a day.
-- takes:   batch integer
-- returns: queue
-- locks:   their rows, skip locked
-- index:   front_pkey
with old as materialized (
    select front.queue, front.position
      from wherry.front
     where front.noted_at < wherry.now() - interval '1 day'
        or (front.noted_at < wherry.now() - interval '1 minute'
            and exists (
                select from wherry.front as newer
                 where newer.queue = front.queue
                   and newer.position > front.position
                offset 0
            ))
     limit :batch::integer
       for update skip locked
)
delete from wherry.front
 using old
 where front.queue = any (array(select old.queue from old))
   and front.queue = old.queue
   and front.position = old.position
returning front.queue
