-- Tokens of those who call a server, and the audit of what people and tokens changed.
-- Locks: wherry.settings, access exclusive, for a moment: it holds one row, and nothing in it is rewritten.

-- Of a token's secret only the hash is here.
create table wherry.token (
    id text primary key,
    name text not null,
    hash bytea not null,
    rights text[] not null,
    queues text[] not null,
    created_at timestamptz not null,
    created_by text not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    constraint token_is_named check (name <> '' and octet_length(name) <= 255),
    constraint token_hash_is_sha256 check (octet_length(hash) = 32),
    constraint token_rights_are_known check (rights <> '{}' and rights <@ array['enqueue', 'work', 'read', 'admin']),
    constraint token_queues_are_said check (queues <> '{}')
);
-- An expired token keeps its name until it is revoked: nothing but a clock has ended it.
create unique index token_by_name on wherry.token (name) where revoked_at is null;

-- Who changed what by hand. No foreign keys: what a row tells of may be gone, and the row is to stay.
create table wherry.audit (
    id bigint generated always as identity primary key,
    at timestamptz not null,
    actor text not null,
    peer text,
    action text not null,
    target json not null,
    count bigint not null,
    reason text
);
create index audit_by_time on wherry.audit (at);

alter table wherry.settings
    add column keep_audit interval not null default '1 year'
        constraint settings_keeps_the_audit_for_a_while check (keep_audit >= interval '0');

-- Forget one batch of audit rows whose time is over; returns whether there may be more. Nobody but the owner
-- may delete from the audit: this runs as the owner, and takes what is old by the owner's own setting only.
create function wherry.prune_audit(batch integer) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    as $$
declare
    pruned bigint;
begin
    with old as materialized (
        select audit.id
          from wherry.audit
         where audit.at < wherry.now() - (select settings.keep_audit from wherry.settings)
         order by audit.at
         limit batch
           for update skip locked
    )
    delete from wherry.audit
     using old
     where audit.id = old.id;
    get diagnostics pruned = row_count;
    return pruned > 0 and pruned >= batch;
end
$$;
revoke all on function wherry.prune_audit(integer) from public;
