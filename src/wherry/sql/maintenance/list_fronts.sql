-- The newest front of each queue, or of those that are named.
-- takes:   queues text[] (null: all)
-- returns: queue, highs, lows, starts
-- locks:   none
-- index:   none: the table holds a few rows a queue
select distinct on (front.queue)
       front.queue, front.highs, front.lows, front.starts
  from wherry.front
 where :queues::text[] is null
    or front.queue = any (:queues::text[])
 order by front.queue, front.position desc
