-- Add one row to the audit, in the transaction of what it tells of.
-- takes:   actor text, peer text, action text, target json, count bigint, reason text
-- returns: nothing
-- locks:   none
-- index:   none
insert into wherry.audit (at, actor, peer, action, target, count, reason)
values (
       wherry.now(), :actor::text, :peer::text, :action::text, :target::json, :count::bigint, :reason::text
)
