-- Draw a transaction id of our own: every transaction that has written before has a lower one, and may not
-- have seen what was committed just now. A snapshot's xmax would not do: it is the one after the last that
-- has ended, below some of those in flight.
-- takes:   nothing
-- returns: horizon (transactions_ended.sql tells when those below it are over)
-- locks:   none
-- index:   none
select pg_current_xact_id()::text::bigint as horizon
