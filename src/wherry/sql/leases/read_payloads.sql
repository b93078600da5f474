-- Read the payloads that stand apart from their tasks, of one queue.
-- takes:   queue text, ids bigint[]
-- returns: task_id, payload_text; nothing of a task whose payload does not stand apart, or that is gone
-- locks:   none
-- index:   payload_pkey
select payload.task_id,
       convert_from(string_agg(payload.piece, '' order by payload.nth), 'UTF8') as payload_text
  from wherry.payload
 where payload.task_id = any (:ids::bigint[])
   and payload.queue = :queue::text
 group by payload.task_id
