-- List our indexes, without those of single days, and whether they can be used.
-- takes:   nothing
-- returns: name, qualified (as SQL has it), is_usable
-- locks:   none
-- index:   none
select c.relname::text as name,
       c.oid::regclass::text as qualified,
       i.indisvalid and i.indisready and i.indislive as is_usable
  from pg_index i
  join pg_class c
    on c.oid = i.indexrelid
 where c.relnamespace = (select l.relnamespace from pg_class l where l.oid = 'wherry.live'::regclass)
   and not c.relispartition
 order by name
