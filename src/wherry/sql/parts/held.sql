-- The lease rows that still vouch for what is reported.
-- needs: asked (lease_id)
-- gives: held (lease_id, part, worker, only_ids: null, or the tasks of a row that is a part of its lease). Each task that
--        is locked carries all of its row of held with it, so the ids of a whole lease stay out: a thousand are 3.4 kB
held as materialized (
    select lease.lease_id, lease.part, lease.worker, case when lease.split then lease.task_ids end as only_ids
      from wherry.lease
     where lease.lease_id = any (array(select asked.lease_id from asked))
       and lease.expires_at - wherry.now() > interval '0'
)
