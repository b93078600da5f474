-- Note which schedules a worker declares, and look again at those that nobody declared.
-- takes:   instance uuid (of the worker), names text[], definitions text[] (of each of them)
-- returns: noted, woken (how many of each); none of a worker that is not known (yet)
-- locks:   the worker's declarations; the schedules that are woken
-- index:   declaration_pkey, worker_pkey, schedule_pkey
with known as (
    select worker.instance
      from wherry.worker
     where worker.instance = :instance::uuid
),
noted as (
    insert into wherry.declaration (schedule, instance, definition)
    select asked.name, known.instance, asked.definition
      from known
     cross join unnest(:names::text[], :definitions::text[]) as asked (name, definition)
     order by asked.name
        on conflict (schedule, instance) do update
       set definition = excluded.definition
    returning declaration.schedule
),
woken as (
    update wherry.schedule
       set due_at = schedule.next_at
      from noted
     where schedule.name = noted.schedule
       and schedule.due_at is null
       and schedule.paused_at is null
    returning schedule.name
)
select (select count(*) from noted) as noted,
       (select count(*) from woken) as woken
