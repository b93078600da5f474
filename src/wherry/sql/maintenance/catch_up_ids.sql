-- Move the sequence of task ids past every task there is, if a restore has left it behind.
-- takes:   nothing
-- returns: moved (the id after which it goes on, or null if it was in order)
-- locks:   none that a task's life waits for; an advisory one against others who do the same
-- index:   live_pkey, finished_pkey
select wherry.catch_up_ids() as moved
