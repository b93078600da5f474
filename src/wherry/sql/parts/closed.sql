-- Remove the lease rows of which nothing is left to report.
-- needs: held, mine (id); takes the parameter closed uuid[], what their holders have closed
-- gives: closed
closed as (
    delete from wherry.lease
     using held
     where lease.lease_id = any (array(select held.lease_id from held))
       and lease.lease_id = held.lease_id
       and lease.part = held.part
       and (held.lease_id = any (:closed::uuid[]) or cardinality(lease.task_ids) = 1)
       -- Never trust the holder's count: a task whose lease row is gone would be nobody's.
       and not exists (
           select from wherry.live
            where live.id = any (lease.task_ids)
              and live.queue = lease.queue
              and live.lease_id = held.lease_id
              and live.state = 'leased'
              and live.id not in (select mine.id from mine)
           offset 0
       )
)
