-- Add the sums of the minutes that are over to those of their hours and to the totals.
-- takes:   fold_until timestamptz
-- returns: nothing
-- locks:   the sums, which nobody else changes: the caller has the chore
-- index:   tally_pkey, chore_pkey
insert into wherry.tally as held (step, at, pair, kind, bucket, n, seconds)
select step.name, step.at, minute.pair, minute.kind, minute.bucket, sum(minute.n), sum(minute.seconds)
  from wherry.tally as minute
 cross join lateral (
       values ('hour', date_bin('1 hour', minute.at, '2000-01-01 00:00:00+00')),
              ('ever', '-infinity'::timestamptz)
 ) as step (name, at)
 where minute.step = 'minute'
   and minute.at >= (select chore.folded_until from wherry.chore where chore.name = 'roll')
   and minute.at < :fold_until::timestamptz
 group by step.name, step.at, minute.pair, minute.kind, minute.bucket
    on conflict (step, at, pair, kind, bucket) do update
   set n = held.n + excluded.n,
       seconds = held.seconds + excluded.seconds
