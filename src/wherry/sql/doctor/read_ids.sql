-- Tell how far the sequence of ids is, and which is the highest that a task has.
-- takes:   nothing
-- returns: drawn (0 if none was), highest (null if there is no task)
-- locks:   none
-- index:   live_pkey, finished_pkey
select coalesce(pg_sequence_last_value('wherry.task_id'::regclass), 0) as drawn,
       greatest(
           (select max(live.id) from wherry.live),
           (select max(finished.id) from wherry.finished)
       ) as highest
