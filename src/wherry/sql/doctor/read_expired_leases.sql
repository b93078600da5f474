-- Count the leases that ran out so long ago that somebody should have taken them back, at most so many.
-- takes:   since_seconds double precision, most integer
-- returns: leases, oldest_seconds (null: none), workers
-- locks:   none
-- index:   lease_by_expiry
with expired as materialized (
    select lease.expires_at, lease.worker
      from wherry.lease
     where lease.expires_at < wherry.now() - interval '1 second' * :since_seconds::double precision
     order by lease.expires_at
     limit :most::integer
)
select count(*) as leases,
       extract(epoch from wherry.now() - min(expired.expires_at))::double precision as oldest_seconds,
       coalesce(array_agg(distinct expired.worker), '{}') as workers
  from expired
