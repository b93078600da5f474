-- Leave room where a lease writes: each task is leased about once, and then has a second version and a second entry in
-- the primary key. Full leaves were cleaned, deduplicated and split for it, and duplicates that are kept as lists cost
-- whoever completes them. What is on disk stays as it is; new pages have the room.
-- Locks: wherry.live and its primary key, share update exclusive, for a moment: it stops neither readers nor writers.
-- wherry: works from 19

alter index wherry.live_pkey set (fillfactor = 50);
-- Of the largest rows, which have 2 kB, still two in a page.
alter table wherry.live set (fillfactor = 50);
