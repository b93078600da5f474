-- Forget sums of minutes and hours that nobody can ask for any more, a batch of each.
-- takes:   minutes_seconds double precision, hours_seconds double precision (kept for so long), batch integer
-- returns: gone (how many sums)
-- locks:   the sums, which nobody else changes: the caller has the chore
-- index:   tally_pkey
with old as materialized (
    (select tally.step, tally.at, tally.pair, tally.kind, tally.bucket
       from wherry.tally
      where tally.step = 'minute'
        and tally.at < wherry.now() - :minutes_seconds::double precision * interval '1 second'
      order by tally.at
      limit :batch::integer)
     union all
    (select tally.step, tally.at, tally.pair, tally.kind, tally.bucket
       from wherry.tally
      where tally.step = 'hour'
        and tally.at < wherry.now() - :hours_seconds::double precision * interval '1 second'
      order by tally.at
      limit :batch::integer)
),
gone as (
    delete from wherry.tally
     using old
     where tally.step = old.step
       and tally.at = old.at
       and tally.pair = old.pair
       and tally.kind = old.kind
       and tally.bucket = old.bucket
    returning tally.at
)
select count(*) as gone from gone
