-- Show what a merge patch would make of the payload of a finished task, as requeue_tasks would; nothing is changed.
-- takes:   id bigint, merge_payload json, limit_bytes integer
-- returns: queue, before_text, after_text (null if nothing can be merged), answer (queued, no_object, too_large)
-- locks:   none
-- index:   finished_pkey, payload_pkey
with found as materialized (
    select task.queue,
           coalesce(
               task.payload,
               -- part: payload_apart
           ) as payload
      from wherry.finished task
     where task.id = :id::bigint
),
merged as materialized (
    select found.queue, found.payload, wherry.merge_payload(found.payload, :merge_payload::json) as merged
      from found
)
select merged.queue, merged.payload::text as before_text, merged.merged::text as after_text,
       case when merged.merged is null then 'no_object'
            when octet_length(merged.merged::text) > :limit_bytes::integer then 'too_large'
            else 'queued'
             end as answer
  from merged
