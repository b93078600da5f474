-- Note that a chore has been done, and when it is due again.
-- takes:   name text, rest_seconds double precision (from now on), fold_until timestamptz (null: as before)
-- returns: nothing
-- locks:   the row of the chore, which is ours
-- index:   chore_pkey
update wherry.chore
   set due_at = wherry.now() + :rest_seconds::double precision * interval '1 second',
       done_at = wherry.now(),
       folded_until = coalesce(:fold_until::timestamptz, chore.folded_until)
 where chore.name = :name::text
