-- Tell how many tasks are in which state: from the sums, and the leased ones by looking at them.
-- takes:   queues text[] (null: all), most integer (no more leased tasks are looked at)
-- returns: queue, type, live, delayed, parked, leased, succeeded, failed, dead, canceled
-- locks:   none
-- index:   tally_pkey, chore_pkey, lease_by_expiry, live_pkey
with summed as (
    select tally.pair, tally.kind, tally.n
      from wherry.tally
     where tally.step = 'ever'
       and tally.kind not in ('wait', 'run')
     union all
    select tally.pair, tally.kind, tally.n
      from wherry.tally
     where tally.step = 'minute'
       and tally.at >= (select chore.folded_until from wherry.chore where chore.name = 'roll')
       and tally.kind not in ('wait', 'run')
),
entered as (
    select summed.pair,
           sum(summed.n) filter (where summed.kind in ('enqueued', 'requeued', 'live')) as ever_live,
           sum(summed.n) filter (where summed.kind in ('succeeded', 'failed', 'dead', 'canceled')) as ended,
           sum(summed.n) filter (where summed.kind = 'delayed') as delayed,
           sum(summed.n) filter (where summed.kind = 'parked') as parked,
           sum(summed.n) filter (where summed.kind = 'succeeded') as succeeded,
           sum(summed.n) filter (where summed.kind = 'left_succeeded') as left_succeeded,
           sum(summed.n) filter (where summed.kind = 'failed') as failed,
           sum(summed.n) filter (where summed.kind = 'left_failed') as left_failed,
           sum(summed.n) filter (where summed.kind = 'dead') as dead,
           sum(summed.n) filter (where summed.kind = 'left_dead') as left_dead,
           sum(summed.n) filter (where summed.kind = 'canceled') as canceled,
           sum(summed.n) filter (where summed.kind = 'left_canceled') as left_canceled
      from summed
     group by summed.pair
),
member as (
    select ordered.lease_id, ordered.queue, n.task_id
      from (
           select lease.lease_id, lease.queue, lease.task_ids
             from wherry.lease
            order by lease.expires_at
            limit :most::integer
      ) as ordered
     cross join lateral unnest(ordered.task_ids) as n (task_id)
     limit :most::integer
),
leased as (
    select coalesce(pair.id, 0) as pair, count(*) as n
      from member
     cross join lateral (
           select live.queue, live.type
             from wherry.live
            where live.id = member.task_id
              and live.queue = member.queue
              and live.state = 'leased'
              and live.lease_id = member.lease_id
            limit 1
     ) as held
      left join wherry.pair
        on pair.queue = held.queue
       and pair.type = held.type
     group by 1
)
select pair.queue,
       pair.type,
       (coalesce(entered.ever_live, 0) - coalesce(entered.ended, 0))::bigint as live,
       coalesce(entered.delayed, 0)::bigint as delayed,
       coalesce(entered.parked, 0)::bigint as parked,
       coalesce(leased.n, 0) as leased,
       (coalesce(entered.succeeded, 0) - coalesce(entered.left_succeeded, 0))::bigint as succeeded,
       (coalesce(entered.failed, 0) - coalesce(entered.left_failed, 0))::bigint as failed,
       (coalesce(entered.dead, 0) - coalesce(entered.left_dead, 0))::bigint as dead,
       (coalesce(entered.canceled, 0) - coalesce(entered.left_canceled, 0))::bigint as canceled
  from wherry.pair
  left join entered
    on entered.pair = pair.id
  left join leased
    on leased.pair = pair.id
 where (entered.pair is not null or leased.pair is not null)
   and (:queues::text[] is null or pair.queue = any (:queues::text[]))
 order by pair.queue, pair.type
