-- See that the days ahead have their partitions.
-- takes:   nothing
-- returns: made
-- locks:   as the function says
-- index:   none
select wherry.make_days() as made
