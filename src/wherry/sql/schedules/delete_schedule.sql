-- Delete a schedule with its ticks, unless a live worker declares it: it would be back in a minute. Its tasks stay.
-- takes:   name text
-- returns: known (whether there was such a schedule), gone (whether it was deleted)
-- locks:   the schedule
-- index:   schedule_pkey, tick_is_once, declaration_pkey, worker_pkey
with gone as (
    delete from wherry.schedule
     where schedule.name = :name::text
       and not exists (
           select from wherry.declaration
             join wherry.worker
               on worker.instance = declaration.instance
            where declaration.schedule = schedule.name
              and not schedule.by_hand
              and worker.expires_at > wherry.now()
       )
    returning schedule.name
),
forgotten as (
    delete from wherry.tick
     using gone
     where tick.schedule = gone.name
)
select exists (select from wherry.schedule where schedule.name = :name::text) as known,
       exists (select from gone) as gone
