-- Store tasks without keys, and wake the idle workers of their queues. Nothing but its id names such a task, so there
-- is nothing to look at first. In the order of the tasks, since positions are drawn as the rows come.
-- takes:   tasks text, a json array of what runs of tasks have in common: (ids: null to draw them here, payloads,
--          queue, type, priority, delay_seconds, run_after, max_attempts, retry, timeout_seconds, ttl_seconds, tags,
--          headers); notify text, true or false
-- returns: ids (a json array in the order of the tasks, without those that were there already), woken (how many
--          notifications); both are text, since a caller's driver may read no other type as we do
-- locks:   none
-- index:   live_pkey
with placed as (
    insert into wherry.live (
           id, position, created_at, run_after, discard_at, timeout_seconds, ttl_seconds, max_attempts, priority, state,
           queue, type, tags, headers, retry, payload
    )
    select coalesce(each.id, nextval('wherry.task_id'::regclass)),
           nextval('wherry.position'::regclass),
           wherry.now(),
           due.run_after,
           wherry.now() + t.ttl_seconds * interval '1 second',
           t.timeout_seconds,
           t.ttl_seconds,
           t.max_attempts,
           t.priority,
           case when due.run_after > wherry.now() then 'delayed' else 'ready' end,
           t.queue,
           t.type,
           t.tags,
           t.headers,
           t.retry,
           each.payload
      from json_to_recordset(:tasks::text::json) as t (
           ids bigint[], payloads json, queue text, type text, priority smallint, delay_seconds double precision,
           run_after timestamptz, max_attempts integer, retry json, timeout_seconds double precision,
           ttl_seconds double precision, tags text[], headers json
      )
     cross join lateral (
           select coalesce(t.run_after, wherry.now() + coalesce(t.delay_seconds, 0) * interval '1 second') as run_after
     ) as due
     cross join lateral rows from (unnest(t.ids), json_array_elements(t.payloads)) as each (id, payload)
        -- The same call sent again, since its answer was lost.
        on conflict (id, queue) do nothing
    returning live.id, live.queue, live.run_after
),
arrived as (
    select distinct placed.queue
      from placed
     where :notify::text::boolean
       and placed.run_after < wherry.now() + interval '5 seconds'
),
-- part: woken
-- Ids that were drawn here rise in the order of the tasks.
select coalesce((select json_agg(placed.id order by placed.id)::text from placed), '[]') as ids,
       (select count(*) from woken)::text as woken
