-- Tell when the newest point of a line began, how old the newest sum is, and until when all has been summed up.
-- takes:   width_seconds integer
-- returns: last_at, tallied_seconds (null if there has never been one), summed_until (null as well)
-- locks:   none
-- index:   chore_pkey
select date_bin(:width_seconds::integer * interval '1 second', wherry.now(), '2000-01-01 00:00:00+00') as last_at,
       extract(epoch from wherry.now() - roll.done_at)::double precision as tallied_seconds,
       roll.done_at as summed_until
  from (values (1)) as one (row)
  left join wherry.chore roll
    on roll.name = 'roll'
