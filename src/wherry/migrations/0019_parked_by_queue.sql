-- Find parked tasks by their type and queue: what is paused in one queue only is jumped over.
-- Locks: none that stops readers or writers. It waits for transactions that are older than itself.
-- wherry: no transaction
drop index concurrently if exists wherry.live_parked_in_queue;
-- wherry: next
-- squawk-ignore ban-concurrent-index-creation-in-transaction, prefer-robust-stmts
create index concurrently live_parked_in_queue on wherry.live (type, queue) where state = 'parked';
-- wherry: next
drop index concurrently if exists wherry.live_parked;
