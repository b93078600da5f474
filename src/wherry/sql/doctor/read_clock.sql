-- Tell the server's time, in seconds since 1970.
-- takes:   nothing
-- returns: at_seconds
-- locks:   none
-- index:   none
select extract(epoch from clock_timestamp())::double precision as at_seconds
