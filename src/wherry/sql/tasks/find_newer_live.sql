-- Name the next queued and leased tasks that a filter wants, from the oldest on: what a page begins with that ends
-- where another began.
-- takes:   states text[] (of ready, delayed, parked, leased), queue, type, tag, key, worker, error (a part of
--          the last error, any case), payload (a JSON object that it holds), older_than_seconds, created_after,
--          created_before, least bigint (the lowest id), after bigint (the last id of the page before),
--          limit_tasks integer
-- returns: id
-- locks:   none
-- index:   live_pkey, lease_pkey, payload_pkey
select live.id
  from wherry.live
          -- part: wanted_live
 order by live.id
 limit :limit_tasks::integer
