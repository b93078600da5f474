-- The newest front of a queue, and whether writers have ended that were seen when a horizon was drawn. What a prepared
-- transaction holds has changed its holder's name: while there is one, none has ended.
-- takes:   queue text, writers text[]
-- returns: highs, lows, starts (each null if there is no front), seconds_old, ended
-- locks:   none
-- index:   front_pkey
select newest.highs, newest.lows, newest.starts,
       extract(epoch from wherry.now() - newest.noted_at)::double precision as seconds_old,
       not exists (
           select from pg_locks
            where pg_locks.locktype = 'relation'
              and pg_locks.database = (select d.oid from pg_database d where d.datname = current_database())
              and pg_locks.relation = 'wherry.live'::regclass
              and pg_locks.mode = 'RowExclusiveLock'
              and (pg_locks.virtualtransaction = any (:writers::text[]) or pg_locks.pid is null)
       ) as ended
  from (values (:queue::text)) as asked (queue)
  -- part: newest_front
