-- Tell workers what to do; they hear of it at their next beat.
-- takes:   names text[], directive text: none | drain | stop, actor text, reason text
-- returns: instance
-- locks:   the rows of those workers, in the order in which beats lock them
-- index:   worker_pkey
with named as materialized (
    select worker.instance
      from wherry.worker
     where worker.name = any (:names::text[])
       and worker.expires_at > wherry.now()
     order by worker.instance
       for update
)
update wherry.worker
   set directive = :directive::text,
       directed_by = case when :directive::text = 'none' then null else :actor::text end,
       directive_reason = case when :directive::text = 'none' then null else :reason::text end
  from named
 where worker.instance = any (array(select named.instance from named))
   and worker.instance = named.instance
   and worker.expires_at > wherry.now()
returning worker.instance::text as instance
