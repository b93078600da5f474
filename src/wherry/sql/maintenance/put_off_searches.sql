-- Set when to search next for tasks in front of the fronts: of these queues, or of those where it is time now.
-- takes:   queues text[] (null: where it is time), search_seconds double precision (from now on)
-- returns: queue, highs, lows, starts
-- locks:   none
-- index:   none: the table holds a few rows a queue
insert into wherry.front (queue, position, noted_at, search_at, highs, lows, starts)
select newest.queue,
       nextval('wherry.position'::regclass),
       newest.noted_at,
       wherry.now() + :search_seconds::double precision * interval '1 second',
       newest.highs,
       newest.lows,
       newest.starts
  from (
       select distinct on (front.queue)
              front.queue, front.noted_at, front.search_at, front.highs, front.lows, front.starts
         from wherry.front
        order by front.queue, front.position desc
  ) as newest
 where newest.queue = any (:queues::text[])
    or (:queues::text[] is null and newest.search_at <= wherry.now())
returning front.queue, front.highs, front.lows, front.starts
