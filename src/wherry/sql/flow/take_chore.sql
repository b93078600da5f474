-- Take a chore that is due by putting it off first: whoever fails at it, or dies, leaves it to the next time, so that what
-- cannot be done is not tried without end.
-- takes:   name text, rest_seconds double precision (from now on)
-- returns: name; nothing if it is not due
-- locks:   the row of the chore
-- index:   chore_pkey
update wherry.chore
   set due_at = wherry.now() + :rest_seconds::double precision * interval '1 second'
 where chore.name = :name::text
   and chore.due_at <= wherry.now()
returning chore.name
