-- Tell the moment, by the database's clock.
-- takes:   nothing
-- returns: now
-- locks:   none
-- index:   none
select wherry.now() as now
