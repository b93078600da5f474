-- The ids of a lease as they are: looking for what to compress in them costs more than they are worth.
-- Locks: wherry.lease, access exclusive, for a moment; no row is read or written.

alter table wherry.lease alter column task_ids set storage external;
