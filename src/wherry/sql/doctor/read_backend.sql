-- Tell which of the server's processes answers.
-- takes:   nothing
-- returns: pid
-- locks:   none
-- index:   none
select pg_backend_pid() as pid
