-- Forget queues and types of which nothing has been counted for so long that only the totals know them, and none of whose
-- tasks is there: else names that were made by mistake would stand in the way of others for ever.
-- takes:   unused_seconds double precision, batch integer
-- returns: gone (how many pairs)
-- locks:   pairs and their sums, which nobody else changes: the caller has the chore
-- index:   tally_pkey
with unused as materialized (
    select pair.id
      from wherry.pair
     where pair.id <> 0
       and pair.seen_at < wherry.now() - :unused_seconds::double precision * interval '1 second'
     order by pair.seen_at
     limit :batch::integer
),
held as (
    select tally.pair
      from wherry.tally
      join unused
        on unused.id = tally.pair
     where tally.step = 'ever'
       and tally.at = '-infinity'
     group by tally.pair
    having sum(case when tally.kind in ('enqueued', 'requeued', 'live') then tally.n
                    when tally.kind in ('succeeded', 'failed', 'dead', 'canceled') then -tally.n
                    else 0 end) <> 0
        or sum(tally.n) filter (where tally.kind = 'delayed') <> 0
        or sum(tally.n) filter (where tally.kind = 'parked') <> 0
        or sum(case tally.kind when 'succeeded' then tally.n when 'left_succeeded' then -tally.n else 0 end) <> 0
        or sum(case tally.kind when 'failed' then tally.n when 'left_failed' then -tally.n else 0 end) <> 0
        or sum(case tally.kind when 'dead' then tally.n when 'left_dead' then -tally.n else 0 end) <> 0
        or sum(case tally.kind when 'canceled' then tally.n when 'left_canceled' then -tally.n else 0 end) <> 0
),
gone as (
    delete from wherry.pair
     using unused
     where pair.id = unused.id
       and not exists (select from held where held.pair = unused.id)
    returning pair.id
),
emptied as (
    delete from wherry.tally
     using gone
     where tally.step = 'ever'
       and tally.at = '-infinity'
       and tally.pair = gone.id
)
select count(*) as gone
  from gone
