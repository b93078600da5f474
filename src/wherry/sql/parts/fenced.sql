-- The fence: a task only for the holder of its unexpired lease. It ends a select from live, and locks.
-- needs: asked (id, queue, token, lease_id), held
-- gives: the rows of live, held and asked that belong together
      from asked
      join held
        on held.lease_id = asked.lease_id
       and (held.only_ids is null or asked.id = any (held.only_ids))
      join wherry.live
        on live.id = asked.id
       and live.queue = asked.queue
     where live.id = any (array(select asked.id from asked))
       and live.state = 'leased'
       and live.token = asked.token
       and live.lease_id = asked.lease_id
     order by live.id
       for update of live skip locked
