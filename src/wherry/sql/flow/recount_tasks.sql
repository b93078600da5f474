-- Count all tasks, and correct the sums by what is missing.
-- takes:   nothing
-- returns: wrong (how many sums)
-- locks:   the row of the chore, so that there is one at a time
-- index:   none: reads live and finished once
select wherry.recount() as wrong
