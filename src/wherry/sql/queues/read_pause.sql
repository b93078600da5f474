-- Read the pause of a queue.
-- takes:   queue text
-- returns: paused_at, actor, reason; no row if it is not paused
-- locks:   none
-- index:   paused_pkey
select paused.paused_at, paused.actor, paused.reason
  from wherry.paused
 where paused.queue = :queue::text
