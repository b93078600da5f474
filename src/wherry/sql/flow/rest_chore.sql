-- Put the roller's chore off if there is nothing to sum up and nothing to add to the hours: what an idle system does in
-- one statement. What is dead in the flow is passed over here, too, so the rest is as many times as long as the look.
-- takes:   idle_seconds double precision (from now on, at least), share double precision (of the look, at least)
-- returns: name; nothing if there is something to do, if it is not due, or if somebody else is at it
-- locks:   the row of the chore, skip locked
-- index:   chore_pkey
update wherry.chore
   set due_at = wherry.now() + interval '1 second' * greatest(
           :idle_seconds::double precision,
           :share::double precision
               * extract(epoch from clock_timestamp() - statement_timestamp())::double precision
       ),
       done_at = wherry.now()
 where chore.name = (
       select idle.name
         from wherry.chore as idle
        where idle.name = 'roll'
          and idle.due_at <= wherry.now()
          and idle.folded_until >= wherry.now() - interval '5 minutes'
          and not exists (select from wherry.flow)
          for update skip locked
       )
returning chore.name
