-- Read what stands under the names that a worker declares.
-- takes:   names text[], definitions text[] (what it declares under each), instance uuid (of the worker)
-- returns: name, definition, former, by_hand, held (whether another live worker declares what stands there), noted
--          (whether it is known that this one declares what it does), rests (whether it is not looked at, though nobody
--          paused it), queue
-- locks:   none
-- index:   schedule_pkey, declaration_pkey, worker_pkey
select schedule.name, schedule.definition, schedule.former, schedule.by_hand,
       exists (
           select from wherry.declaration
             join wherry.worker
               on worker.instance = declaration.instance
            where declaration.schedule = schedule.name
              and declaration.definition = schedule.definition
              and declaration.instance <> :instance::uuid
              and worker.expires_at > wherry.now()
       ) as held,
       exists (
           select from wherry.declaration
            where declaration.schedule = schedule.name
              and declaration.instance = :instance::uuid
              and declaration.definition = asked.definition
       ) as noted,
       schedule.due_at is null and schedule.paused_at is null as rests,
       schedule.queue
  from unnest(:names::text[], :definitions::text[]) as asked (name, definition)
  join wherry.schedule
    on schedule.name = asked.name
 order by schedule.name
