-- Remember that a schedule was run by hand; a call that is sent again remembers it once.
-- takes:   name text, task_id bigint, reason text, running bigint[] (of its tasks those that may not have ended)
-- returns: nothing
-- locks:   the schedule, which is ours
-- index:   schedule_pkey, tick_is_once
with noted as (
    insert into wherry.tick (schedule, planned_at, by_hand, until_at, n, outcome, task_id, at, reason)
    select :name::text, run.at, true, run.at, 1, 'by_hand', :task_id::bigint, wherry.now(), :reason::text
      from (
           select greatest(
                      wherry.now(),
                      (
                          select tick.planned_at + interval '1 microsecond'
                            from wherry.tick
                           where tick.schedule = :name::text
                             and tick.by_hand
                           order by tick.planned_at desc
                           limit 1
                      )
                  ) as at
      ) as run
     where not exists (
           select from wherry.tick
            where tick.schedule = :name::text
              and tick.by_hand
              and tick.task_id = :task_id::bigint
           )
    returning tick.schedule
)
update wherry.schedule
   set by_hand_runs = schedule.by_hand_runs + 1,
       running = :running::bigint[]
  from noted
 where schedule.name = noted.schedule
