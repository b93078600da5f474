-- Tell which of these ids name a task, live or finished.
-- takes:   ids bigint[]
-- returns: id
-- locks:   none
-- index:   live_pkey, finished_pkey
select asked.id
  from unnest(:ids::bigint[]) as asked (id)
 where exists (select from wherry.live where live.id = asked.id offset 0)
    or exists (select from wherry.finished where finished.id = asked.id offset 0)
