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
            where live.id = any (array(
                      select named.id
                        from unnest(lease.task_ids) as named (id)
                       where named.id not in (select mine.id from mine)
                  ))
              and live.queue = lease.queue
              and live.lease_id = held.lease_id
              and live.state = 'leased'
           offset 0
       )
)
