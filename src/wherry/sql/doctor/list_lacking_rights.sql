-- List what this role may not do of what is asked for.
-- takes:   kinds text[] (table, sequence, function), names text[], privileges text[]: one of each for each right
-- returns: kind, name, privilege
-- locks:   none
-- index:   none
select asked.kind, asked.name, asked.privilege
  from unnest(:kinds::text[], :names::text[], :privileges::text[]) as asked (kind, name, privilege)
 cross join (select l.relnamespace as home from pg_class l where l.oid = 'wherry.live'::regclass) as ours
  left join pg_class c
    on c.relnamespace = ours.home
   and c.relname = asked.name
   and asked.kind <> 'function'
  left join pg_proc p
    on p.pronamespace = ours.home
   and p.proname = asked.name
   and asked.kind = 'function'
 where not case asked.kind
               when 'table' then coalesce(has_table_privilege(c.oid, asked.privilege), true)
               when 'sequence' then coalesce(has_sequence_privilege(c.oid, asked.privilege), true)
               else coalesce(has_function_privilege(p.oid, asked.privilege), true)
           end
 order by asked.name, asked.privilege
