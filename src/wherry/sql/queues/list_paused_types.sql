-- List the paused types.
-- takes:   nothing
-- returns: type, queue (empty: in all of them), paused_at, actor, reason
-- locks:   none
-- index:   none: there are few
select paused_type.type, paused_type.queue, paused_type.paused_at, paused_type.actor, paused_type.reason
  from wherry.paused_type
 order by paused_type.type, paused_type.queue
