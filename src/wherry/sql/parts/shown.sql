-- The tasks of a page, as Tasks are read, of what the select that follows in brackets finds: newest first, as many
-- as limit_bytes allows, one at least. What does not fit is never sent, and only looked at for its size.
-- needs: `fitting` behind that select, which gives the columns of a Task in the order of their ids and of its limit,
--        with payload, headers, retry and result as they are stored
-- gives: the columns of a Task, and has_more: whether another one was found behind it
select shown.id, shown.queue, shown.type,
       coalesce(
           shown.payload::text,
           (
               select convert_from(string_agg(p.piece, '' order by p.nth), 'UTF8')
                 from wherry.payload p
                where p.task_id = shown.id
                  and p.queue = shown.queue
           )
       ) as payload_text,
       shown.state, shown.priority,
       shown.attempts, shown.max_attempts, shown.token, shown.run_after, shown.created_at, shown.started_at,
       shown.finished_at, shown.worker, shown.lease_expires_at, shown.key, shown.tags,
       shown.headers::text as headers_text, shown.retry::text as retry_text, shown.timeout_seconds,
       shown.result::text as result_text, shown.reason, shown.error, shown.cancel_requested_at, shown.has_more
  from (
       select found.id, found.queue, found.type, found.payload, found.state, found.priority, found.attempts,
              found.max_attempts, found.token, found.run_after, found.created_at, found.started_at,
              found.finished_at, found.worker, found.lease_expires_at, found.key, found.tags, found.headers,
              found.retry, found.timeout_seconds, found.result, found.reason, found.error, found.cancel_requested_at,
              coalesce(sum(
                  -- Only what is compressed, as small ones never are, has to be read for it.
                  case when found.payload is null
                       then (
                           select sum(octet_length(p.piece))
                             from wherry.payload p
                            where p.task_id = found.id
                              and p.queue = found.queue
                       )
                       when pg_column_compression(found.payload) is null then pg_column_size(found.payload)
                       else octet_length(found.payload::text)
                        end
                  + case when found.result is null then 0
                         when pg_column_compression(found.result) is null then pg_column_size(found.result)
                         else octet_length(found.result::text)
                          end
              ) over turn, 0) as bytes_before,
              lead(found.id) over turn is not null as has_more
         from (
