-- Count all tasks, if they are not too many, and correct the sums by what is missing.
-- takes:   most bigint (as PostgreSQL's statistics say; more are not counted)
-- returns: wrong (how many sums); nothing if there are too many
-- locks:   none
-- index:   none: reads live and finished once
select wherry.recount() as wrong
  from (
       select coalesce(sum(greatest(c.reltuples, 0)), 0) as tasks
         from pg_class as c
        where c.oid = 'wherry.live'::regclass
           or c.oid in (select i.inhrelid from pg_inherits as i where i.inhparent = 'wherry.finished'::regclass)
       ) as guessed
 where guessed.tasks <= :most::bigint
