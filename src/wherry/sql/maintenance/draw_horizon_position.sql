-- Draw a position, and then tell who writes to the live tasks. Whoever had drawn a lower position was writing by then,
-- since a statement locks its table before it draws anything: it is among these, or it has ended.
-- takes:   nothing
-- returns: position, writers (text[])
-- locks:   none
-- index:   none
select drawn.position, now_writing.writers
  from (select nextval('wherry.position'::regclass) as position offset 0) as drawn
 cross join lateral (
       select coalesce(array_agg(pg_locks.virtualtransaction), '{}') as writers
         from pg_locks
        where pg_locks.locktype = 'relation'
          and pg_locks.database = (select d.oid from pg_database d where d.datname = current_database())
          and pg_locks.relation = 'wherry.live'::regclass
          and pg_locks.mode = 'RowExclusiveLock'
          -- Of drawn, so that it is drawn first.
          and drawn.position is not null
 ) as now_writing
