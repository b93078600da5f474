-- Paused queues, workers that know any type, and what workers are told to do.
-- Locks: wherry.worker, access exclusive, for a moment: it holds one row a worker, and nothing in it is
-- rewritten. The heartbeats of leases do not touch it.

-- A paused queue is one that nothing is leased from; all else goes on.
create table wherry.paused (
    queue text primary key,
    paused_at timestamptz not null,
    actor text,
    reason text,
    constraint paused_queue_is_named check (queue <> '' and octet_length(queue) <= 255)
);

-- Who works through a server may know any type (null), and has no process of its own that we know of. The
-- code of one migration earlier takes a null in types for no type at all, and never reads pid.
-- squawk-ignore ban-drop-not-null
alter table wherry.worker alter column types drop not null;
-- squawk-ignore ban-drop-not-null
alter table wherry.worker alter column pid drop not null;

alter table wherry.worker
    add column directive text not null default 'none'
        constraint worker_directive_is_known check (directive in ('none', 'drain', 'stop')),
    add column directed_by text,
    add column directive_reason text;
