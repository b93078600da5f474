-- Tell what was counted, by points of time. What has not been added to the hours yet is taken from the minutes.
-- takes:   step text (minute, hour), width_seconds integer, since timestamptz, queues text[] (null: all), type text
--          (null: all)
-- returns: at, kind, bucket, n, seconds
-- locks:   none
-- index:   tally_pkey, chore_pkey
with asked as materialized (
    select pair.id
      from wherry.pair
     where (:queues::text[] is null or pair.queue = any (:queues::text[]))
       and (:type::text is null or pair.type = :type::text)
),
summed as (
    select tally.at, tally.pair, tally.kind, tally.bucket, tally.n, tally.seconds
      from wherry.tally
     where tally.step = :step::text
       and tally.at >= :since::timestamptz
     union all
    select tally.at, tally.pair, tally.kind, tally.bucket, tally.n, tally.seconds
      from wherry.tally
     where :step::text = 'hour'
       and tally.step = 'minute'
       and tally.at >= (select chore.folded_until from wherry.chore where chore.name = 'roll')
       and tally.at >= :since::timestamptz
)
select date_bin(:width_seconds::integer * interval '1 second', summed.at, '2000-01-01 00:00:00+00') as at,
       summed.kind,
       summed.bucket,
       sum(summed.n)::bigint as n,
       sum(summed.seconds) as seconds
  from summed
  join asked
    on asked.id = summed.pair
 group by 1, 2, 3
