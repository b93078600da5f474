-- Since when a worker hears no notification and only polls.
-- Locks: wherry.worker, access exclusive, for a moment: it holds one row a worker, and nothing in it is rewritten.

-- Null: it hears, need not hear, or does not say, as an older version does not.
alter table wherry.worker add column deaf_since timestamptz;
