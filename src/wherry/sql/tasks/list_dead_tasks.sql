-- List dead and failed tasks, newest first; its literal condition lets the small index serve.
-- takes:   states text[] (of dead, failed), queue, type, tag, error (a part of the last
--          error, any case), older_than_seconds (since it finished), after bigint (the last id of the page
--          before), limit_tasks
-- returns: a Task
-- locks:   none
-- index:   finished_dead
-- part: finished_task
 where finished.state in ('dead', 'failed')
   and finished.state = any (:states::text[])
   and (:queue::text is null or finished.queue = :queue::text)
   and (:type::text is null or finished.type = :type::text)
   and (:tag::text is null or finished.tags @> array[:tag::text])
   and (:error::text is null or position(lower(:error::text) in lower(finished.last_error)) > 0)
   and (:after::bigint is null or finished.id < :after::bigint)
   and (:older_than_seconds::double precision is null
        or finished.finished_at < wherry.now() - :older_than_seconds::double precision * interval '1 second')
 order by finished.id desc
 limit :limit_tasks::integer
