-- A worker says goodbye.
-- takes:   instance uuid
-- returns: nothing
-- locks:   the worker's own rows
-- index:   worker_pkey
with quiet as (
    delete from wherry.waiting
     where waiting.instance = :instance::uuid
)
delete from wherry.worker
 where worker.instance = :instance::uuid
