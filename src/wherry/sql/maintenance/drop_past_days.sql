-- Forget one step's worth of what retention no longer asks for.
-- takes:   batch integer
-- returns: more (there is more to do)
-- locks:   as the function says
-- index:   none
select wherry.drop_past_days(:batch::integer) as more
