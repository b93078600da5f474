-- Forget that a worker declares schedules: what it said before keeps them alive no longer.
-- takes:   instance uuid (of the worker), names text[]
-- returns: nothing
-- locks:   those declarations
-- index:   declaration_pkey
delete from wherry.declaration
 where declaration.schedule = any (:names::text[])
   and declaration.instance = :instance::uuid
