-- List who waits for a lock in this database, the longest first, and the first of those who have it.
-- takes:   most integer
-- returns: pid, application, seconds, holder (0: a prepared transaction), holder_application, holder_state,
--          holder_statement
-- locks:   none
-- index:   none
with waiting as (
    select l.pid, max(extract(epoch from clock_timestamp() - l.waitstart))::double precision as seconds
      from pg_locks l
     where not l.granted
     group by l.pid
)
select waiting.pid,
       seen.application_name as application,
       waiting.seconds,
       blocker.pid as holder,
       holding.application_name as holder_application,
       holding.state as holder_state,
       holding.query as holder_statement
  from waiting
  join pg_stat_activity seen
    on seen.pid = waiting.pid
   and seen.datname = current_database()
 cross join lateral (select (pg_blocking_pids(waiting.pid))[1] as pid) as blocker
  left join pg_stat_activity holding
    on holding.pid = blocker.pid
 where waiting.seconds is not null
   and blocker.pid is not null
 order by waiting.seconds desc, waiting.pid
 limit :most::integer
