-- List schedules with what may be wrong with them.
-- takes:   nothing
-- returns: name, late_seconds (for how long it has been due; null if it is not looked at), trouble, is_undeclared (no live
--          worker declares it, and it is neither paused nor made by hand), is_paused
-- locks:   none
-- index:   schedule_pkey, declaration_pkey, worker_pkey
select schedule.name,
       extract(epoch from wherry.now() - schedule.due_at)::double precision as late_seconds,
       schedule.trouble,
       schedule.paused_at is null
       and not schedule.by_hand
       and not exists (
           select from wherry.declaration
             join wherry.worker
               on worker.instance = declaration.instance
            where declaration.schedule = schedule.name
              and worker.expires_at > wherry.now()
       ) as is_undeclared,
       schedule.paused_at is not null as is_paused
  from wherry.schedule
 order by schedule.name
