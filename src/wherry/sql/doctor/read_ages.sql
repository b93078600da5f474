-- Tell how many transactions old the oldest rows of this database are, for which numbers run out at two
-- thousand million.
-- takes:   nothing
-- returns: xids, multixacts, frozen_after (at which age vacuum begins by itself)
-- locks:   none
-- index:   none
select age(d.datfrozenxid)::bigint as xids,
       mxid_age(d.datminmxid)::bigint as multixacts,
       current_setting('autovacuum_freeze_max_age')::bigint as frozen_after
  from pg_database d
 where d.datname = current_database()
