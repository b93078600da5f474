-- Since when nothing was counted of a queue and type, so that those that nobody uses make room for others; and a recount
-- soon, since code of before may have changed tasks that it did not count.
-- Locks: wherry.pair, access exclusive, for a moment: it holds a thousand rows at most.

-- As of once a day.
alter table wherry.pair add column seen_at timestamptz not null default statement_timestamp();

update wherry.chore
   set due_at = wherry.now() + interval '1 minute'
 where chore.name = 'recount'
   and (exists (select from wherry.live) or exists (select from wherry.finished));
