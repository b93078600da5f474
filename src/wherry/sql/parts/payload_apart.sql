-- The payload of a finished task that stands apart, put together from its pieces. What has one of its own gives null.
-- needs: a row with the name task (id, queue)
-- gives: json, in brackets
(
    select convert_from(string_agg(p.piece, '' order by p.nth), 'UTF8')
      from wherry.payload p
     where p.task_id = task.id
       and p.queue = task.queue
)::json
