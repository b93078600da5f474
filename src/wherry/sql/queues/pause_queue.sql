-- Pause a queue: nothing is leased from it until it is resumed. One that is paused stays as it was.
-- takes:   queue text, actor text, reason text
-- returns: queue; nothing if it was paused already
-- locks:   the row of the queue
-- index:   paused_pkey
insert into wherry.paused (queue, paused_at, actor, reason)
values (:queue::text, wherry.now(), :actor::text, :reason::text)
    on conflict (queue) do nothing
returning paused.queue
