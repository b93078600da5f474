-- Paused types.
-- Locks: none that anybody could be waiting for; every object is new.

-- Nothing of a paused type is leased, in one queue or, where that is empty, in all of them. The code of one migration
-- earlier goes on leasing it.
create table wherry.paused_type (
    type text not null,
    queue text not null,
    paused_at timestamptz not null,
    actor text,
    reason text,
    primary key (queue, type),
    constraint paused_type_is_named check (type <> '' and octet_length(type) <= 255),
    constraint paused_type_queue_is_short check (octet_length(queue) <= 255)
);
