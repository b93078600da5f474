-- Count in the flow what went back into its queue, and how long it waited and ran if it did run.
-- needs: back (queue, type, state, kind: retried, snoozed, released or lost; due_at and leased_at as they were)
-- gives: put_back
put_back as (
    insert into wherry.flow (at, n, kind, queue, type, wait_bucket, wait_seconds, run_bucket, run_seconds)
    select wherry.now(), count(*), each.kind, each.queue, each.type,
           width_bucket(each.wait_seconds, '{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}'::double precision[]) as wait_bucket,
           sum(each.wait_seconds),
           width_bucket(each.run_seconds, '{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}'::double precision[]) as run_bucket,
           sum(each.run_seconds)
      from (
           select back.kind || case when back.state = 'delayed' then '_delayed' else '' end as kind, back.queue, back.type,
                  case when back.kind in ('retried', 'snoozed') then date_part('epoch', back.leased_at - back.due_at) end as wait_seconds,
                  case when back.kind in ('retried', 'snoozed') then date_part('epoch', wherry.now() - back.leased_at) end as run_seconds
             from back
           offset 0
      ) as each
     group by each.kind, each.queue, each.type, wait_bucket, run_bucket
)
