-- The core: live and finished tasks apart, leases and keys in tables of their own.
-- Locks: none that anybody could be waiting for; every object is new.
--
--   live       tasks that wait or run; stays small, so that "next task" stays fast
--   finished   what has ended, partitioned by the day on which its retention is over
--   attempt    the history of attempts that did not succeed, append-only
--   lease      the right to run a batch of tasks until it expires, one row a batch
--   key        idempotency keys, which name a task
--   worker     who is alive and which types it knows
--   waiting    which idle workers want a wake-up, and for which queue

-- Time is the database's. Tests replace this function; it has no SET clause so that it inlines.
create function wherry.now() returns timestamptz
    language sql stable parallel safe
    as $$ select pg_catalog.statement_timestamp() $$;

create sequence wherry.task_id;

-- Drawn at each arrival among the ready tasks, so that order is by when a task became ready.
create sequence wherry.position;

create table wherry.settings (
    the_only_row boolean primary key default true,
    keep_succeeded interval not null default interval '7 days',
    keep_failed interval not null default interval '30 days',
    channel text not null default 'wherry_' || pg_catalog.replace(pg_catalog.gen_random_uuid()::text, '-', ''),
    constraint settings_has_one_row check (the_only_row),
    constraint settings_keeps_for_a_while check (keep_succeeded >= interval '0' and keep_failed >= interval '0')
);
insert into wherry.settings default values;

create table wherry.live (
    id bigint not null,
    position bigint not null,
    token bigint not null default 0,
    created_at timestamptz not null,
    run_after timestamptz not null,
    leased_at timestamptz,
    discard_at timestamptz,
    cancel_requested_at timestamptz,
    lease_id uuid,
    timeout_seconds double precision,
    ttl_seconds double precision,
    key_ttl_seconds double precision,
    attempts integer not null default 0,
    max_attempts integer not null,
    snoozes integer not null default 0,
    releases integer not null default 0,
    priority smallint not null default 0,
    state text not null,
    queue text not null,
    type text not null,
    key text,
    tags text[],
    headers json,
    retry json,
    payload json not null,
    last_error text,
    cancel_reason text,
    primary key (id, queue),
    constraint live_state_is_known check (state in ('ready', 'delayed', 'parked', 'leased')),
    constraint live_priority_in_range check (priority between -100 and 100),
    constraint live_max_attempts_in_range check (max_attempts between 1 and 32767),
    constraint live_queue_is_named check (queue <> '' and octet_length(queue) <= 255),
    constraint live_type_is_named check (type <> '' and octet_length(type) <= 255)
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

-- What waits for a worker, in the order in which it is leased.
create index live_ready on wherry.live (queue, priority desc, position) where state = 'ready';
-- What waits for its time. Kept out of live_ready: mixed in, 300,000 of them made a lease 300 times slower.
create index live_delayed on wherry.live (run_after) where state = 'delayed';
-- What waits for a worker that knows its type.
create index live_parked on wherry.live (type) where state = 'parked';
-- What is dropped if it has not started by then.
create index live_discard on wherry.live (discard_at) where discard_at is not null;

create table wherry.lease (
    lease_id uuid not null,
    -- A heartbeat that names only some of a batch splits the row: same lease, two ends.
    part integer not null default 0,
    expires_at timestamptz not null,
    split boolean not null default false,
    queue text not null,
    worker text not null,
    task_ids bigint[] not null,
    primary key (lease_id, part)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
create index lease_by_expiry on wherry.lease (expires_at);

create table wherry.key (
    queue text not null,
    key text not null,
    task_id bigint not null,
    -- Fresh whenever the key comes to name a task anew, so that two takers of an old key cannot both win.
    stamp bigint not null,
    seen_stamp bigint,
    payload_hash bytea not null,
    primary key (queue, key)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create table wherry.attempt (
    task_id bigint not null,
    queue text not null,
    token bigint not null,
    attempt integer not null,
    lease_id uuid,
    started_at timestamptz,
    ended_at timestamptz not null,
    retry_at timestamptz,
    outcome text not null,
    worker text,
    error_type text,
    message text,
    traceback text,
    primary key (task_id, queue, token),
    constraint attempt_outcome_is_known check (outcome in ('failed', 'lost', 'canceled'))
);

create table wherry.finished (
    id bigint not null,
    token bigint not null,
    created_at timestamptz not null,
    run_after timestamptz not null,
    leased_at timestamptz,
    finished_at timestamptz not null,
    keep_until timestamptz not null,
    key_until timestamptz,
    lease_id uuid,
    timeout_seconds double precision,
    ttl_seconds double precision,
    key_ttl_seconds double precision,
    attempts integer not null,
    max_attempts integer not null,
    priority smallint not null,
    state text not null,
    queue text not null,
    type text not null,
    worker text,
    key text,
    tags text[],
    headers json,
    retry json,
    payload json not null,
    result json,
    reason text,
    last_error text,
    primary key (id, queue, keep_until),
    constraint finished_state_is_final check (state in ('succeeded', 'failed', 'dead', 'canceled'))
) partition by range (keep_until);
create index finished_dead on wherry.finished (id) where state in ('dead', 'failed');

-- A day that nobody made in time must not fail a completion: it lands here, and is pruned from here.
create table wherry.finished_default partition of wherry.finished default;

create table wherry.worker (
    instance uuid primary key,
    name text not null,
    host text not null,
    pid integer not null,
    queues text[],
    types text[] not null,
    started_at timestamptz not null,
    beat_at timestamptz not null,
    expires_at timestamptz not null
);

create table wherry.waiting (
    queue text not null,
    instance uuid not null,
    expires_at timestamptz not null,
    primary key (queue, instance)
);

-- Every task, waiting, running or finished, for people and for plain SQL.
create view wherry.tasks as
select live.id,
       live.queue,
       live.type,
       live.payload::jsonb as payload,
       case when live.state = 'leased' then 'leased' else 'queued' end as state,
       live.priority::integer as priority,
       live.attempts,
       live.max_attempts,
       live.run_after,
       lease.worker as lease_owner,
       lease.expires_at as lease_expires_at,
       live.token as lease_token,
       live.key,
       live.tags,
       live.headers::jsonb as headers,
       null::jsonb as result,
       live.cancel_reason as reason,
       live.last_error,
       live.created_at,
       live.leased_at as started_at,
       null::timestamptz as finished_at,
       live.cancel_requested_at
  from wherry.live
  left join lateral (
       select l.worker, l.expires_at
         from wherry.lease l
        where live.state = 'leased'
          and l.lease_id = live.lease_id
          and (not l.split or live.id = any (l.task_ids))
        limit 1
  ) as lease on true
union all
select finished.id,
       finished.queue,
       finished.type,
       finished.payload::jsonb,
       finished.state,
       finished.priority::integer,
       finished.attempts,
       finished.max_attempts,
       finished.run_after,
       finished.worker,
       null::timestamptz,
       finished.token,
       finished.key,
       finished.tags,
       finished.headers::jsonb,
       finished.result::jsonb,
       finished.reason,
       finished.last_error,
       finished.created_at,
       finished.leased_at,
       finished.finished_at,
       null::timestamptz
  from wherry.finished;
comment on view wherry.tasks is 'Every task; state is queued, leased, succeeded, failed, dead or canceled';

-- PostgreSQL lets everybody call a new function; only roles that were granted it may call ours.
revoke all on function wherry.now() from public;
