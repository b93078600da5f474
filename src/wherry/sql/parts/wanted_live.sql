-- Which live tasks a filter wants; what it does not say does not narrow.
-- needs: a select from live; takes the parameters states text[] (of ready, delayed, parked, leased), queue, type, tag,
--        key, worker text, error text (a part of the last error, any case), payload text (a JSON object that it holds),
--        least bigint (the lowest id), after bigint (below which ids are), older_than_seconds, created_after and
--        created_before timestamptz
-- gives: its conditions
          where live.state = any (:states::text[])
            and (:queue::text is null or live.queue = :queue::text)
            and (:type::text is null or live.type = :type::text)
            and (:tag::text is null or live.tags @> array[:tag::text])
            and (:key::text is null or live.key = :key::text)
            and (:error::text is null or position(lower(:error::text) in lower(live.last_error)) > 0)
            and (:payload::text is null
                 or coalesce(
                        live.payload,
                        (
                            select convert_from(string_agg(p.piece, '' order by p.nth), 'UTF8')
                              from wherry.payload p
                             where p.task_id = live.id
                               and p.queue = live.queue
                        )::json
                    )::jsonb @> :payload::text::jsonb)
            and live.id >= :least::bigint
            and (:after::bigint is null or live.id < :after::bigint)
            and (:older_than_seconds::double precision is null
                 or live.created_at < wherry.now() - :older_than_seconds::double precision * interval '1 second')
            and (:created_after::timestamptz is null or live.created_at >= :created_after::timestamptz)
            and (:created_before::timestamptz is null or live.created_at < :created_before::timestamptz)
            and (:worker::text is null
                 or exists (
                    select from wherry.lease
                     where live.state = 'leased'
                       and lease.lease_id = live.lease_id
                       and lease.worker = :worker::text
                    offset 0
                 ))
