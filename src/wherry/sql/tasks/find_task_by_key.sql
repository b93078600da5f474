-- Tell which task a key names.
-- takes:   queue text, key text
-- returns: task_id; nothing if the key names none
-- locks:   none
-- index:   key_pkey
select key.task_id
  from wherry.key
 where key.queue = :queue::text
   and key.key = :key::text
