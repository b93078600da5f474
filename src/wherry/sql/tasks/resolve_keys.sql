-- Tell of keys whose task has left live whether they are still taken.
-- takes:   names text, a json array of (queue, key)
-- returns: answers (a json array in the order of the names, of [stamp (null: the key is gone), taken,
--          task_id]); it is text, since a caller's driver may read no other type as we do
-- locks:   none
-- index:   key_pkey, live_pkey, finished_pkey
select coalesce(
           json_agg(
               json_build_array(
                   key.stamp,
                   exists (
                       select from wherry.live
                        where live.id = key.task_id
                          and live.queue = key.queue
                       offset 0
                   ) or exists (
                       select from wherry.finished
                        where finished.id = key.task_id
                          and finished.queue = key.queue
                          and coalesce(finished.key_until, finished.keep_until) > wherry.now()
                       offset 0
                   ),
                   key.task_id
               )
               order by asked.ord
           )::text,
           '[]'
       ) as answers
  from rows from (
       json_to_recordset(:names::text::json) as (queue text, key text)
  ) with ordinality as asked (queue, key, ord)
  left join lateral (
       select k.queue, k.task_id, k.stamp
         from wherry.key k
        where k.queue = asked.queue
          and k.key = asked.key
        limit 1
  ) as key on true
