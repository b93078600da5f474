-- Let this transaction end, and its locks with it, if its client is silent for so long, or a statement takes so long.
-- takes:   hold text (as a setting says a length of time)
-- returns: statement_timeout, idle_timeout
-- locks:   none
-- index:   none
select set_config('statement_timeout', :hold::text, true) as statement_timeout,
       set_config('idle_in_transaction_session_timeout', :hold::text, true) as idle_timeout
