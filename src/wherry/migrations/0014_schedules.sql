-- Schedules: tasks that come again and again, and what became of each of their times.
-- Locks: wherry.worker, share row exclusive, for a moment: heartbeats wait for it, and it holds one row a worker.

create table wherry.schedule (
    name text primary key,
    cron text not null,
    tz text not null,
    type text not null,
    queue text not null,
    priority smallint not null,
    max_attempts integer not null,
    timeout_seconds double precision,
    ttl_seconds double precision,
    tags text[],
    headers json,
    retry json,
    payload json not null,
    missed text not null,
    overlap text not null,
    -- What all of the above makes up; and those that stood here before, the newest last.
    definition text not null,
    former text[] not null default '{}',
    -- Made by hand: it is for no worker to declare.
    by_hand boolean not null,
    created_at timestamptz not null,
    changed_at timestamptz not null,
    -- The next time that is to be settled, and when it is to be looked at: null while paused, and while no live worker
    -- declares it. The last time that was settled: nothing up to it is ever looked at again.
    next_at timestamptz not null,
    due_at timestamptz,
    last_at timestamptz,
    -- Of its tasks those that may not have ended; the last of them only, if they may overlap.
    running bigint[] not null default '{}',
    fired bigint not null default 0,
    missed_ticks bigint not null default 0,
    overlapped bigint not null default 0,
    paused_ticks bigint not null default 0,
    by_hand_runs bigint not null default 0,
    -- Why its times cannot be told, if so.
    trouble text,
    paused_at timestamptz,
    paused_by text,
    pause_reason text,
    resumed_at timestamptz,
    constraint schedule_name_is_short check (name <> '' and octet_length(name) <= 255),
    constraint schedule_missed_is_known check (missed in ('last', 'all', 'skip')),
    constraint schedule_overlap_is_known check (overlap in ('allow', 'skip')),
    constraint schedule_paused_is_not_due check (paused_at is null or due_at is null)
);

create index schedule_due on wherry.schedule (due_at) where due_at is not null;

-- What became of a planned time, or of several that follow one another (n of them, up to until_at), none of which
-- brought a task. What was run by hand is no tick, but is remembered here.
create table wherry.tick (
    schedule text not null,
    planned_at timestamptz not null,
    by_hand boolean not null default false,
    until_at timestamptz not null,
    n bigint not null,
    outcome text not null,
    task_id bigint,
    at timestamptz not null,
    reason text,
    -- One task for each time of a schedule, whatever clocks and schedulers do.
    constraint tick_is_once primary key (schedule, planned_at, by_hand),
    constraint tick_outcome_is_known check (outcome in ('fired', 'missed', 'overlapped', 'paused', 'by_hand'))
);

create index tick_by_time on wherry.tick (at);

-- Which workers declare which schedules, and in which definition. It goes with its worker.
create table wherry.declaration (
    schedule text not null,
    instance uuid not null references wherry.worker (instance) on delete cascade,
    definition text not null,
    primary key (schedule, instance)
);

create index declaration_by_worker on wherry.declaration (instance);
