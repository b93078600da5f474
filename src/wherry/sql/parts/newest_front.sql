-- The newest front of a queue, joined to what asks.
-- needs: asked (queue)
-- gives: newest (highs, lows, starts, noted_at; each null if there is no front)
  left join lateral (
       select front.highs, front.lows, front.starts, front.noted_at
         from wherry.front
        where front.queue = asked.queue
        order by front.position desc
        limit 1
  ) as newest on true
