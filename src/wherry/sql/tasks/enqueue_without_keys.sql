-- Store tasks without keys, and wake the idle workers of their queues. Nothing but its id names such a task, so there
-- is nothing to look at first, nor a conflict to look for: what is sent again comes through enqueue_tasks.sql. In the
-- order of the tasks, since positions are drawn as the rows come.
-- takes:   tasks text, a json array of what runs of tasks have in common: (n: how many,
--          ids: null to draw them here, payloads,
--          queue, type, priority, delay_seconds, run_after, max_attempts, retry, timeout_seconds, ttl_seconds, tags,
--          headers); token text (with which theirs begin); notify text, true or false
-- returns: ids (a json array in the order of the tasks; empty if they were given), woken (how many notifications); both
--          are text, since a caller's driver may read no other type as we do
-- locks:   none
-- index:   none
with asked as materialized (
    select t.n,
           t.ids,
           t.payloads,
           t.queue,
           t.type,
           t.priority,
           coalesce(t.run_after, wherry.now() + coalesce(t.delay_seconds, 0) * interval '1 second') as run_after,
           t.max_attempts,
           t.retry,
           t.timeout_seconds,
           t.ttl_seconds,
           t.tags,
           t.headers,
           -- Read here, where the planner takes it to be read a hundred times. Below, it would take that for ten thousand
           -- times, find a plan for the very value to be cheaper by that, and make one for each call: 200 us.
           :token::text::bigint as token
      from json_to_recordset(:tasks::text::json) as t (
           n integer, ids bigint[], payloads json, queue text, type text, priority smallint, delay_seconds double precision,
           run_after timestamptz, max_attempts integer, retry json, timeout_seconds double precision,
           ttl_seconds double precision, tags text[], headers json
      )
),
placed as (
    insert into wherry.live (
           id, position, token, payload,
           created_at, run_after, discard_at, timeout_seconds, ttl_seconds, max_attempts, priority, state, queue, type, tags,
           headers, retry
    )
    select coalesce(each.id, nextval('wherry.task_id'::regclass)),
           nextval('wherry.position'::regclass),
           asked.token,
           each.payload,
           -- part: as_asked
      from asked
     cross join lateral rows from (unnest(asked.ids), json_array_elements(asked.payloads)) as each (id, payload)
    returning live.id
),
counted as (
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(), sum(asked.n),
           case when asked.run_after > wherry.now() then 'enqueued_delayed' else 'enqueued' end as kind,
           asked.queue, asked.type
      from asked
     group by kind, asked.queue, asked.type
),
arrived as (
    select distinct asked.queue
      from asked
     where :notify::text::boolean
       and asked.run_after < wherry.now() + interval '5 seconds'
),
-- part: woken
-- Ids that were drawn here rise in the order of the tasks.
select coalesce(
           (
               select json_agg(placed.id order by placed.id)::text
                 from placed
                where exists (select from asked where asked.ids is null)
           ),
           '[]'
       ) as ids,
       (select count(*) from woken)::text as woken
