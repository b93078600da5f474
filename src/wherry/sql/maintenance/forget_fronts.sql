-- Forget fronts that have been replaced for a minute, and all of a queue that has had no new one for a day; and those of
-- a future that is lost: after a restore, or a failover to a copy without the sequences, positions are drawn a second
-- time, and what comes would stand in front of them.
-- takes:   batch integer
-- returns: queue
-- locks:   their rows, skip locked
-- index:   front_pkey
with drawn as materialized (
    -- Above all that this snapshot's fronts can have, unless the sequence was set back.
    select nextval('wherry.position'::regclass) as position
),
old as materialized (
    select front.queue, front.position
      from wherry.front
     cross join drawn
     where front.position > drawn.position
        or drawn.position < any (front.starts)
        or front.noted_at < wherry.now() - interval '1 day'
        or (front.noted_at < wherry.now() - interval '1 minute'
            and exists (
                select from wherry.front as newer
                 where newer.queue = front.queue
                   and newer.position > front.position
                offset 0
            ))
     limit :batch::integer
       for update of front skip locked
)
delete from wherry.front
 using old
 where front.queue = any (array(select old.queue from old))
   and front.queue = old.queue
   and front.position = old.position
returning front.queue
