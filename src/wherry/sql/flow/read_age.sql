-- Tell when the newest point of a line began, and how old the newest sum is.
-- takes:   width_seconds integer
-- returns: last_at, tallied_seconds (null if there has never been one)
-- locks:   none
-- index:   chore_pkey
select date_bin(:width_seconds::integer * interval '1 second', wherry.now(), '2000-01-01 00:00:00+00') as last_at,
       (select extract(epoch from wherry.now() - chore.done_at)::double precision
          from wherry.chore
         where chore.name = 'roll') as tallied_seconds
