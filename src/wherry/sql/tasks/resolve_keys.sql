-- Tell of keys whose task has left live whether they still name it.
-- takes:   names json array of (queue, key)
-- returns: queue, key, task_id, payload_hash matches are the caller's; stamp; alive (the key is still taken)
-- locks:   none
-- index:   key_pkey, finished_pkey
select key.queue,
       key.key,
       key.task_id,
       key.stamp,
       (exists (
           select from wherry.live
            where live.id = key.task_id
              and live.queue = key.queue
       ) or exists (
           select from wherry.finished
            where finished.id = key.task_id
              and finished.queue = key.queue
              and coalesce(finished.key_until, finished.keep_until) > wherry.now()
       )) as alive
  from json_to_recordset(:names::json) as asked (queue text, key text)
  join wherry.key
    on key.queue = asked.queue
   and key.key = asked.key
