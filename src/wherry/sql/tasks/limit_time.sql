-- End what follows in this transaction after so long.
-- takes:   milliseconds integer
-- returns: milliseconds
-- locks:   none
-- index:   none
select set_config('statement_timeout', :milliseconds::integer::text, true) as milliseconds
