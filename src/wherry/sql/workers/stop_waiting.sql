-- A worker that has found work wants no wake-ups.
-- takes:   instance uuid, queues text[]
-- returns: nothing
-- locks:   the worker's own rows
-- index:   waiting_pkey
delete from wherry.waiting
 where waiting.instance = :instance::uuid
   and waiting.queue = any (:queues::text[])
