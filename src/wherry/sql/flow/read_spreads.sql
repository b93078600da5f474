-- Tell how long the tasks of each queue, or of each type, waited and ran since a moment of the last two days.
-- takes:   since timestamptz, queues text[] (null: all), by_type boolean, most integer (no more names are told apart:
--          those of the oldest pairs)
-- returns: name, kind (wait, run), bucket, n, seconds
-- locks:   none
-- index:   tally_pkey
with asked as materialized (
    select pair.id, case when :by_type::boolean then pair.type else pair.queue end as name
      from wherry.pair
     where :queues::text[] is null
        or pair.queue = any (:queues::text[])
     order by pair.id
     limit :most::integer
)
select asked.name,
       tally.kind,
       tally.bucket,
       sum(tally.n)::bigint as n,
       sum(tally.seconds) as seconds
  from wherry.tally
  join asked
    on asked.id = tally.pair
 where tally.step = 'minute'
   and tally.at >= :since::timestamptz
   and tally.kind in ('wait', 'run')
 group by 1, 2, 3
