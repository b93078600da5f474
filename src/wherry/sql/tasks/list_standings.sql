-- Tell of ids whether they name a finished task, a live one, or none.
-- takes:   ids bigint[]
-- returns: id, standing (final, live, unknown)
-- locks:   none
-- index:   live_pkey, finished_pkey
select asked.id,
       case when exists (select from wherry.live where live.id = asked.id) then 'live'
            when exists (select from wherry.finished where finished.id = asked.id) then 'final'
            else 'unknown'
             end as standing
  from unnest(:ids::bigint[]) as asked (id)
