-- Count the queued and leased tasks that a filter wants, and no more than so many of them.
-- takes:   states text[] (of ready, delayed, parked, leased), queue, type, tag, key, worker, error (a part of
--          the last error, any case), payload (a JSON object that it holds), older_than_seconds, created_after,
--          created_before, least bigint (the lowest id), after bigint (the last id of the page before), most
--          integer
-- returns: tasks
-- locks:   none
-- index:   live_pkey, lease_pkey, payload_pkey
select count(*) as tasks
  from (
         select from wherry.live
          -- part: wanted_live
          limit :most::integer
  ) as found
