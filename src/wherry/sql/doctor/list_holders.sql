-- List who keeps vacuum from removing dead rows of this database, the oldest first: sessions, prepared
-- transactions, replication slots, and standbys that feed back. Always one row at least, since each tells
-- how many sessions this role may not look into.
-- takes:   most integer
-- returns: hidden, kind (null: there is no holder), name, xids (how many transactions it holds back), seconds
--          (since it began; null if nobody knows), role, application, state, statement
-- locks:   none
-- index:   none
with holder as (
    select case when seen.backend_type = 'walsender' then 'standby' else 'session' end as kind,
           seen.pid::text as name,
           greatest(age(seen.backend_xmin), age(seen.backend_xid)) as xids,
           extract(epoch from clock_timestamp() - seen.xact_start)::double precision as seconds,
           seen.usename::text as role,
           seen.application_name as application,
           seen.state,
           seen.query as statement
      from pg_stat_activity seen
     where coalesce(seen.backend_xmin, seen.backend_xid) is not null
       and seen.pid <> pg_backend_pid()
       and (seen.datname = current_database() or seen.backend_type = 'walsender')
       and seen.backend_type <> 'autovacuum worker'
     union all
    select 'prepared', p.gid, age(p.transaction),
           extract(epoch from clock_timestamp() - p.prepared)::double precision, p.owner::text, null, null, null
      from pg_prepared_xacts p
     where p.database = current_database()
     union all
    select 'slot', s.slot_name::text, greatest(age(s.xmin), age(s.catalog_xmin)), null, null, null,
           case when s.active then 'active' else 'inactive' end, null
      from pg_replication_slots s
     where coalesce(s.xmin, s.catalog_xmin) is not null
       and (s.database is null or s.database = current_database())
),
oldest as (
    select holder.kind, holder.name, holder.xids, holder.seconds, holder.role, holder.application, holder.state,
           holder.statement
      from holder
     order by holder.xids desc, holder.seconds desc nulls last
     limit :most::integer
),
closed as (
    select count(*) as hidden
      from pg_stat_activity seen
     where seen.datname = current_database()
       and seen.query = '<insufficient privilege>'
)
select closed.hidden, oldest.kind, oldest.name, oldest.xids, oldest.seconds, oldest.role, oldest.application,
       oldest.state, oldest.statement
  from closed
  left join oldest
    on true
 order by oldest.xids desc, oldest.seconds desc nulls last
