-- Tell all that was ever counted, the first queues and types that there were first. What has not been added to the totals yet is taken from the minutes.
-- takes:   queues text[] (null: all)
-- returns: queue, type, kind, bucket, n, seconds
-- locks:   none
-- index:   tally_pkey, chore_pkey
with summed as (
    select tally.pair, tally.kind, tally.bucket, tally.n, tally.seconds
      from wherry.tally
     where tally.step = 'ever'
     union all
    select tally.pair, tally.kind, tally.bucket, tally.n, tally.seconds
      from wherry.tally
     where tally.step = 'minute'
       and tally.at >= (select chore.folded_until from wherry.chore where chore.name = 'roll')
)
select pair.queue,
       pair.type,
       summed.kind,
       summed.bucket,
       sum(summed.n)::bigint as n,
       sum(summed.seconds) as seconds
  from summed
  join wherry.pair
    on pair.id = summed.pair
 where :queues::text[] is null
    or pair.queue = any (:queues::text[])
 group by pair.id, pair.queue, pair.type, summed.kind, summed.bucket
 order by pair.id
