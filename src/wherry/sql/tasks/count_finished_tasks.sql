-- Count the finished tasks that a filter wants, and no more than so many of them.
-- takes:   states text[] (of succeeded, failed, dead, canceled), queue, type, tag, key, worker, error (a part
--          of the last error, any case), payload (a JSON object that it holds), older_than_seconds (since it
--          finished), created_after, created_before, finished_after, finished_before, fingerprint, least bigint (the lowest
--          id), after bigint (the last id of the page before), most integer
-- returns: tasks
-- locks:   none
-- index:   finished_pkey, payload_pkey
select count(*) as tasks
  from (
         select from wherry.finished
          -- part: wanted_finished
            and (:fingerprint::text is null
                 or :fingerprint::text =
                 -- part: fingerprint
                 )
          limit :most::integer
  ) as found
