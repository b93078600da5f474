-- Put the newest dead and failed tasks that a filter wants in groups, by what their errors have in common; the largest
-- first. Nothing beyond the newest so many is looked at.
-- takes:   states text[] (of dead, failed), queue, type, tag, key, worker, error (a part of the last error, any case),
--          payload (a JSON object that it holds), older_than_seconds (since it finished), created_after,
--          created_before, finished_after, finished_before, fingerprint, least bigint (the lowest id), after bigint,
--          most integer (how many tasks), groups integer (how many groups)
-- returns: fingerprint, type, tasks, first_at, last_at, sample_id, sample_error, queues (an array, ten at most), spread
--          (how many ended in each twenty-fourth of the time from since until now), since (when the first of all that
--          were looked at ended), capped (whether there may be older tasks that were not looked at)
-- locks:   none
-- index:   finished_dead, payload_pkey
with newest as materialized (
    select finished.id, finished.queue, finished.type, finished.finished_at,
           left(coalesce(finished.last_error, finished.reason, ''), 500) as error,
           -- part: fingerprint as fingerprint
      from wherry.finished
          -- part: wanted_finished
            and finished.state in ('dead', 'failed')
            and (:fingerprint::text is null
                 or :fingerprint::text =
                 -- part: fingerprint
                 )
     order by finished.id desc
     limit :most::integer
),
times as materialized (
    select min(newest.finished_at) as since,
           greatest(extract(epoch from wherry.now() - min(newest.finished_at)), 1)::double precision as seconds
      from newest
),
grouped as materialized (
    select newest.fingerprint, min(newest.type) as type, count(*) as tasks, min(newest.finished_at) as first_at,
           max(newest.finished_at) as last_at, max(newest.id) as sample_id,
           (array_agg(newest.error order by newest.id desc))[1] as sample_error,
           (array_agg(distinct newest.queue))[1:10] as queues
      from newest
     group by newest.fingerprint
     order by count(*) desc, max(newest.id) desc
     limit :groups::integer
),
parts as materialized (
    select newest.fingerprint,
           least(floor(24 * extract(epoch from newest.finished_at - times.since) / times.seconds), 23)::integer as nth,
           count(*)::integer as n
      from newest
     cross join times
     where newest.fingerprint in (select grouped.fingerprint from grouped)
     group by 1, 2
),
spreads as (
    select grouped.fingerprint, array_agg(coalesce(parts.n, 0) order by numbers.nth) as spread
      from grouped
     cross join generate_series(0, 23) as numbers (nth)
      left join parts
        on parts.fingerprint = grouped.fingerprint
       and parts.nth = numbers.nth
     group by grouped.fingerprint
)
select grouped.fingerprint, grouped.type, grouped.tasks, grouped.first_at, grouped.last_at, grouped.sample_id,
       grouped.sample_error, grouped.queues, spreads.spread, times.since,
       (select count(*) >= :most::integer from newest) as capped
  from grouped
  join spreads
    on spreads.fingerprint = grouped.fingerprint
 cross join times
 order by grouped.tasks desc, grouped.sample_id desc
