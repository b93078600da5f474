-- Tell of leases that a report found nothing for: settled by themselves already, held up, or lost.
-- takes:   outcomes json array of (id, queue, token, lease_id), verb text: complete | fail | give_back
-- returns: ord (position in the array, from 1), answer (already_done, busy, lost)
-- locks:   none
-- index:   live_pkey, finished_pkey, attempt_pkey, lease_pkey
select asked.ord,
       case when exists (
                select from wherry.finished
                 where finished.id = asked.id
                   and finished.queue = asked.queue
                   and finished.token = asked.token
                   and finished.lease_id = asked.lease_id
                   and (:verb::text <> 'complete' or finished.state = 'succeeded')
                offset 0
            ) then 'already_done'
            when :verb::text = 'fail' and exists (
                select from wherry.attempt
                 where attempt.task_id = asked.id
                   and attempt.queue = asked.queue
                   and attempt.token = asked.token
                   and attempt.lease_id = asked.lease_id
                   and attempt.outcome <> 'lost'
                offset 0
            ) then 'already_done'
            when :verb::text = 'give_back' and exists (
                select from wherry.live
                 where live.id = asked.id
                   and live.queue = asked.queue
                   and live.token = asked.token
                   and live.lease_id = asked.lease_id
                   and live.state <> 'leased'
                   and not exists (
                       select from wherry.attempt
                        where attempt.task_id = live.id
                          and attempt.queue = live.queue
                          and attempt.token = live.token
                       offset 0
                   )
                offset 0
            ) then 'already_done'
            when exists (
                select from wherry.live
                  join wherry.lease
                    on lease.lease_id = asked.lease_id
                   and live.id = any (lease.task_ids)
                   and lease.expires_at > wherry.now()
                 where live.id = asked.id
                   and live.queue = asked.queue
                   and live.token = asked.token
                   and live.lease_id = asked.lease_id
                   and live.state = 'leased'
                offset 0
            ) then 'busy'
            else 'lost'
             end as answer
  from rows from (
       json_to_recordset(:outcomes::json) as (id bigint, queue text, token bigint, lease_id uuid)
  ) with ordinality as asked (id, queue, token, lease_id, ord)
