-- Count the rows of each table of ours as PostgreSQL's own counters have them; the days of finished are one table.
-- takes:   nothing
-- returns: name, rows (about), dead (about; rows that vacuum has yet to remove)
-- locks:   none
-- index:   none: of a table with its days the catalog has a few dozen rows
select coalesce(whole.relname, c.relname)::text as name,
       sum(pg_stat_get_live_tuples(c.oid))::bigint as rows,
       sum(pg_stat_get_dead_tuples(c.oid))::bigint as dead
  from pg_class c
  left join pg_inherits i
    on i.inhrelid = c.oid
  left join pg_class whole
    on whole.oid = i.inhparent
 where c.relnamespace = (select l.relnamespace from pg_class l where l.oid = 'wherry.live'::regclass)
   and c.relkind = 'r'
 group by 1
 order by 1
