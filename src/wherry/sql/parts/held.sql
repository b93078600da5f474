-- The lease rows that still vouch for what is reported.
-- needs: asked (lease_id)
-- gives: held (lease_id, part, worker, split, task_ids)
held as materialized (
    select lease.lease_id, lease.part, lease.worker, lease.split, lease.task_ids
      from wherry.lease
     where lease.lease_id = any (array(select asked.lease_id from asked))
       and lease.expires_at - wherry.now() > interval '0'
)
