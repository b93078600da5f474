-- Tell of leases that hold which attempt they are, and what their tasks' retry policies say.
-- takes:   leases json array of (id, queue, token, lease_id)
-- returns: ord (position in the array, from 1), attempt, retry_text; nothing for a lease that is gone
-- locks:   none
-- index:   live_pkey
select asked.ord, held.attempts as attempt, held.retry_text
  from rows from (
       json_to_recordset(:leases::json) as (id bigint, queue text, token bigint, lease_id uuid)
  ) with ordinality as asked (id, queue, token, lease_id, ord)
 cross join lateral (
       select live.attempts, live.retry::text as retry_text
         from wherry.live
        where live.id = asked.id
          and live.queue = asked.queue
          and live.state = 'leased'
          and live.token = asked.token
          and live.lease_id = asked.lease_id
        limit 1
  ) as held
