-- Where a queue's ready tasks begin, so that a lease need not walk past what was leased long ago.
-- Locks: none that anybody could be waiting for; every object is new.

-- While some transaction keeps vacuum from its work, each task that was ever leased leaves a dead entry in
-- live_ready, and a lease that starts at the beginning walks past all of them. A front says, for each stretch of
-- priorities, below which position no ready task is, nor can one come: what is true of a front stays true, so any
-- of them may be used, and the newest is the best. Rows are only inserted, and removed when there are newer ones:
-- one that is updated would drag its versions along, for want of the same vacuum.
create table wherry.front (
    queue text not null,
    -- Drawn from wherry.position when the front was noted.
    position bigint not null,
    noted_at timestamptz not null,
    -- When to look next for ready tasks in front of it. Only a hand in the database can put any there.
    search_at timestamptz not null,
    -- The stretches, in the order in which tasks are leased; together they hold every priority there is.
    highs smallint[] not null,
    lows smallint[] not null,
    starts bigint[] not null,
    primary key (queue, position)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
