-- Sum up what has been added to the flow, one batch of it, and forget it. What belongs to minutes that have been
-- added to the hours and totals already is added there too.
-- Whoever may enqueue may write to the flow whatever it likes: nothing of that may fail here, and hold up the rest.
-- takes:   batch integer, pairs integer (so many queues and types are told apart), kinds text[] (others are passed over)
-- returns: taken (how many rows)
-- locks:   the rows; the sums, which nobody else changes: the caller has the chore
-- index:   tally_pkey, chore_pkey, pair_is_once
with taken as (
    delete from wherry.flow
     where flow.ctid = any (array(select f.ctid from wherry.flow as f limit :batch::integer))
    returning flow.at, flow.n, flow.kind, flow.queue, flow.type, flow.wait_bucket, flow.wait_seconds, flow.run_bucket,
              flow.run_seconds
),
grouped as materialized (
    select date_bin('1 minute', greatest(least(taken.at, wherry.now()), '2000-01-01 00:00:00+00'), '2000-01-01 00:00:00+00') as at,
           taken.queue, taken.type, taken.kind, taken.wait_bucket, taken.run_bucket,
           sum(taken.n) as n,
           coalesce(sum(greatest(0, least(taken.wait_seconds, 1e12))), 0) as wait_seconds,
           coalesce(sum(greatest(0, least(taken.run_seconds, 1e12))), 0) as run_seconds,
           count(*) as rows
      from taken
     group by 1, 2, 3, 4, 5, 6
),
admitted as (
    insert into wherry.pair (queue, type, seen_at)
    select grouped.queue, grouped.type, wherry.now()
      from grouped
     -- No name of ours is longer, and one that is would not fit the index.
     where octet_length(grouped.queue) <= 255
       and octet_length(grouped.type) <= 255
       and not exists (select from wherry.pair where pair.queue = grouped.queue and pair.type = grouped.type offset 0)
     group by grouped.queue, grouped.type
     order by grouped.queue, grouped.type
     limit greatest(0, :pairs::integer + 1 - (select count(*) from wherry.pair))
    returning pair.id, pair.queue, pair.type
),
seen as (
    -- Once a day: a row that stays is not changed all the time.
    update wherry.pair
       set seen_at = wherry.now()
      from (select distinct grouped.queue, grouped.type from grouped) as each
     where pair.queue = each.queue
       and pair.type = each.type
       and pair.seen_at < wherry.now() - interval '1 day'
),
named as (
    select pair.id, pair.queue, pair.type from wherry.pair
     union all
    select admitted.id, admitted.queue, admitted.type from admitted
),
measured as (
    select grouped.at, coalesce(named.id, 0) as pair, told.kind, told.bucket, sum(told.n) as n, sum(told.seconds) as seconds
      from grouped
      left join named
        on named.queue = grouped.queue
       and named.type = grouped.type
     cross join lateral (
           values (replace(grouped.kind, '_delayed', ''), 0::smallint, grouped.n, 0),
                  (case when grouped.kind like '%\_delayed' then 'delayed' end, 0, grouped.n, 0),
                  ('wait', grouped.wait_bucket, grouped.n, grouped.wait_seconds),
                  ('run', grouped.run_bucket, grouped.n, grouped.run_seconds)
     ) as told (kind, bucket, n, seconds)
     where told.kind = any (:kinds::text[])
       and told.bucket is not null
     group by 1, 2, 3, 4
),
summed as (
    insert into wherry.tally as held (step, at, pair, kind, bucket, n, seconds)
    select step.name, step.at, measured.pair, measured.kind, measured.bucket, sum(measured.n), sum(measured.seconds)
      from measured
     cross join (select chore.folded_until from wherry.chore where chore.name = 'roll') as folded
     cross join lateral (
           values ('minute', measured.at, true),
                  ('hour', date_bin('1 hour', measured.at, '2000-01-01 00:00:00+00'), measured.at < folded.folded_until),
                  ('ever', '-infinity'::timestamptz, measured.at < folded.folded_until)
     ) as step (name, at, has_it)
     where step.has_it
     group by step.name, step.at, measured.pair, measured.kind, measured.bucket
        on conflict (step, at, pair, kind, bucket) do update
       set n = held.n + excluded.n,
           seconds = held.seconds + excluded.seconds
)
select coalesce(sum(grouped.rows), 0)::bigint as taken
  from grouped
