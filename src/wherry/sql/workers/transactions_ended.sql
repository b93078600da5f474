-- Tell whether every transaction that was in flight at a horizon has ended.
-- takes:   horizon bigint
-- returns: ended
-- locks:   none
-- index:   none
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= :horizon::bigint as ended
