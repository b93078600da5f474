-- No more than a limited queue has room for: it ends the select of the tasks that are leased. Null, as for nearly every
-- queue, is no limit. While it is asked for the queue's row is locked, until the lease is committed.
-- needs: takes the parameters queue text, limit_tasks integer
-- gives: the limit
     limit least(
               :limit_tasks::integer,
               (select wherry.room_in(limited.queue) from wherry.limited where limited.queue = :queue::text)
           )
