-- The limited queues of which tasks have left their leases: there may be room for others, which somebody waits for.
-- needs: mine (queue)
-- gives: freed (queue), each once
freed as (
    select limited.queue
      from wherry.limited
     where limited.max_running is not null
       and exists (select from mine where mine.queue = limited.queue offset 0)
)
