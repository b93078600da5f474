-- Name the next finished tasks that a filter wants, from the oldest on: what a page begins with that ends
-- where another began.
-- takes:   states text[] (of succeeded, failed, dead, canceled), queue, type, tag, key, worker, error (a part
--          of the last error, any case), payload (a JSON object that it holds), older_than_seconds (since it
--          finished), created_after, created_before, finished_after, finished_before, fingerprint, least bigint (the lowest
--          id), after bigint (the last id of the page before), limit_tasks integer
-- returns: id
-- locks:   none
-- index:   finished_pkey, payload_pkey
select finished.id
  from wherry.finished
          -- part: wanted_finished
            and (:fingerprint::text is null
                 or :fingerprint::text =
                 -- part: fingerprint
                 )
 order by finished.id
 limit :limit_tasks::integer
