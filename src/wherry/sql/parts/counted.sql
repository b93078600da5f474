-- Count in the flow what ended here, and how long it waited and ran if its holder told of it.
-- needs: gone, as the part of that name gives it
-- gives: counted
counted as (
    insert into wherry.flow (at, n, kind, queue, type, wait_bucket, wait_seconds, run_bucket, run_seconds)
    select wherry.now(), count(*), each.next_state, each.queue, each.type,
           width_bucket(each.wait_seconds, '{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}'::double precision[]) as wait_bucket,
           sum(each.wait_seconds),
           width_bucket(each.run_seconds, '{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}'::double precision[]) as run_bucket,
           sum(each.run_seconds)
      from (
           select gone.next_state, gone.queue, gone.type,
                  -- The interval's own function: extract() goes through numeric, at ten times the cost.
                  case when gone.settled_by is not null then date_part('epoch', gone.leased_at - gone.run_after) end as wait_seconds,
                  case when gone.settled_by is not null then date_part('epoch', wherry.now() - gone.leased_at) end as run_seconds
             from gone
           offset 0
      ) as each
     group by each.next_state, each.queue, each.type, wait_bucket, run_bucket
)
