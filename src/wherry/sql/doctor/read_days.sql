-- Tell which days of finished there are, and how far ahead tasks that finish today will be put.
-- takes:   nothing
-- returns: today, made (dates), days_ahead, in_default (rows of no day, about), detached (days that were taken
--          out of finished, and are there still)
-- locks:   none
-- index:   none
select (wherry.now() at time zone 'UTC')::date as today,
       array(
           select to_date(right(c.relname, 8), 'YYYYMMDD')
             from pg_inherits i
             join pg_class c
               on c.oid = i.inhrelid
            where i.inhparent = 'wherry.finished'::regclass
              and c.relname ~ '^finished_[0-9]{8}$'
            order by 1
       ) as made,
       least(extract(epoch from greatest(s.keep_succeeded, s.keep_failed)) / 86400, 386)::integer as days_ahead,
       pg_stat_get_live_tuples('wherry.finished_default'::regclass) as in_default,
       array(
           select to_date(right(c.relname, 8), 'YYYYMMDD')
             from pg_class c
            where c.relnamespace = (select of.relnamespace from pg_class of where of.oid = s.tableoid)
              and c.relkind = 'r'
              and c.relname ~ '^past_[0-9]{8}$'
            order by 1
       ) as detached
  from wherry.settings s
