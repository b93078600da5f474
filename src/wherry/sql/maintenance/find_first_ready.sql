-- Find the first ready task of each stretch of a queue.
-- takes:   queue text, highs smallint[], lows smallint[], starts bigint[]
-- returns: number (of the stretch, from 1), priority, position; no row for a stretch that has none
-- locks:   none
-- index:   live_ready
select stretch.number, first.priority, first.position
  from unnest(:highs::smallint[], :lows::smallint[], :starts::bigint[])
       with ordinality as stretch (high, low, start, number)
 cross join lateral (
       select live.priority, live.position
         from wherry.live
        where live.queue = :queue::text
          and live.state = 'ready'
          and live.priority between stretch.low and stretch.high
          and live.position >= stretch.start
        order by live.priority desc, live.position
        limit 1
 ) as first
