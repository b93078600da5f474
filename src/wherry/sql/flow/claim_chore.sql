-- Take a chore that is due, unless somebody else is at it; it is theirs whose transaction has the lock.
-- takes:   name text
-- returns: fold_until (up to which minute the minutes are to be added to the hours; null if not yet); nothing if it
--          is not due
-- locks:   the row of the chore, skip locked
-- index:   chore_pkey
select case when chore.folded_until < wherry.now() - interval '5 minutes'
            then date_bin('1 minute', wherry.now(), '2000-01-01 00:00:00+00')
             end as fold_until
  from wherry.chore
 where chore.name = :name::text
   and chore.due_at <= wherry.now()
   for update skip locked
