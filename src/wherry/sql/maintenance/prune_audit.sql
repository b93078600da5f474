-- Forget one batch of audit rows that are older than the settings keep them.
-- takes:   batch integer
-- returns: more (whether there may be more of them)
-- locks:   those rows, skip locked
-- index:   audit_by_time
select wherry.prune_audit(:batch::integer) as more
