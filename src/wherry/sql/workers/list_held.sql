-- List the tasks that workers hold, what was leased first first.
-- takes:   most integer (no more leased tasks are looked at)
-- returns: worker, id, queue, type, attempts, seconds
-- locks:   none
-- index:   lease_by_expiry, live_pkey
with member as (
    select ordered.lease_id, ordered.queue, ordered.worker, n.task_id
      from (
           select lease.lease_id, lease.queue, lease.worker, lease.task_ids
             from wherry.lease
            order by lease.expires_at
            limit :most::integer
      ) as ordered
     cross join lateral unnest(ordered.task_ids) as n (task_id)
     limit :most::integer
)
select member.worker, held.id, held.queue, held.type, held.attempts,
       extract(epoch from wherry.now() - held.leased_at)::double precision as seconds
  from member
 cross join lateral (
       select live.id, live.queue, live.type, live.attempts, live.leased_at
         from wherry.live
        where live.id = member.task_id
          and live.queue = member.queue
          and live.state = 'leased'
          and live.lease_id = member.lease_id
        limit 1
 ) as held
 order by held.leased_at, held.id
