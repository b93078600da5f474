-- Tell what came and what ended of each queue, or of each type, by points of time; of the last two days.
-- takes:   width_seconds integer, since timestamptz, queues text[] (null: all), by_type boolean, most integer (no more
--          names are told apart: those of the oldest pairs)
-- returns: name, at, came, succeeded, bad (failed or dead)
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
       date_bin(:width_seconds::integer * interval '1 second', tally.at, '2000-01-01 00:00:00+00') as at,
       coalesce(sum(tally.n) filter (where tally.kind in ('enqueued', 'requeued')), 0)::bigint as came,
       coalesce(sum(tally.n) filter (where tally.kind = 'succeeded'), 0)::bigint as succeeded,
       coalesce(sum(tally.n) filter (where tally.kind in ('failed', 'dead')), 0)::bigint as bad
  from wherry.tally
  join asked
    on asked.id = tally.pair
 where tally.step = 'minute'
   and tally.at >= :since::timestamptz
   and tally.kind in ('enqueued', 'requeued', 'succeeded', 'failed', 'dead')
 group by 1, 2
