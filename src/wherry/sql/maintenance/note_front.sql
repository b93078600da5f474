-- Note where a queue's ready tasks begin. When to search for tasks in front of it stays as it is.
-- takes:   queue text, highs smallint[], lows smallint[], starts bigint[]
-- returns: nothing
-- locks:   none
-- index:   front_pkey
insert into wherry.front (queue, position, noted_at, search_at, highs, lows, starts)
select :queue::text,
       nextval('wherry.position'::regclass),
       wherry.now(),
       coalesce(
           (select front.search_at
              from wherry.front
             where front.queue = :queue::text
             order by front.position desc
             limit 1),
           wherry.now() + interval '30 seconds'
       ),
       :highs::smallint[],
       :lows::smallint[],
       :starts::bigint[]
