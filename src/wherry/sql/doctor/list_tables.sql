-- List our tables with their sizes and what vacuum has to do there; each day of finished is one.
-- takes:   nothing
-- returns: name (with its schema, as SQL has it), is_day, rows (about), dead (about; rows that vacuum may remove),
--          heap_bytes, index_bytes, total_bytes, vacuumed_seconds (ago; null: never), is_vacuumed (by itself),
--          is_on (autovacuum, anywhere)
-- locks:   access share on each table, for a moment
-- index:   none
select c.oid::regclass::text as name,
       c.relispartition as is_day,
       pg_stat_get_live_tuples(c.oid) as rows,
       pg_stat_get_dead_tuples(c.oid) as dead,
       pg_relation_size(c.oid) as heap_bytes,
       pg_indexes_size(c.oid) as index_bytes,
       pg_total_relation_size(c.oid) as total_bytes,
       extract(epoch from clock_timestamp()
           - greatest(pg_stat_get_last_autovacuum_time(c.oid), pg_stat_get_last_vacuum_time(c.oid)))::double precision
           as vacuumed_seconds,
       coalesce((
           select o.option_value::boolean
             from pg_options_to_table(c.reloptions) o
            where o.option_name = 'autovacuum_enabled'
       ), true) as is_vacuumed,
       current_setting('autovacuum')::boolean and current_setting('track_counts')::boolean as is_on
  from pg_class c
 where c.relnamespace = (select l.relnamespace from pg_class l where l.oid = 'wherry.live'::regclass)
   and c.relkind = 'r'
 order by total_bytes desc, name
