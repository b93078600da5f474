-- Which finished tasks a filter wants; what it does not say does not narrow.
-- needs: a select from finished; takes the parameters states text[] (final ones), queue, type, tag, key, worker text,
--        error text (a part of the last error, any case), payload text (a JSON object that it holds), least bigint (the
--        lowest id), after bigint (below which ids are), older_than_seconds (since the end), created_after,
--        created_before, finished_after and finished_before timestamptz
-- gives: its conditions
          where finished.state = any (:states::text[])
            and (:queue::text is null or finished.queue = :queue::text)
            and (:type::text is null or finished.type = :type::text)
            and (:tag::text is null or finished.tags @> array[:tag::text])
            and (:key::text is null or finished.key = :key::text)
            and (:worker::text is null or finished.worker = :worker::text)
            and (:error::text is null or position(lower(:error::text) in lower(finished.last_error)) > 0)
            and (:payload::text is null
                 or coalesce(
                        finished.payload,
                        (
                            select convert_from(string_agg(p.piece, '' order by p.nth), 'UTF8')
                              from wherry.payload p
                             where p.task_id = finished.id
                               and p.queue = finished.queue
                        )::json
                    )::jsonb @> :payload::text::jsonb)
            and finished.id >= :least::bigint
            and (:after::bigint is null or finished.id < :after::bigint)
            and (:older_than_seconds::double precision is null
                 or finished.finished_at < wherry.now() - :older_than_seconds::double precision * interval '1 second')
            and (:created_after::timestamptz is null or finished.created_at >= :created_after::timestamptz)
            and (:created_before::timestamptz is null or finished.created_at < :created_before::timestamptz)
            and (:finished_after::timestamptz is null or finished.finished_at >= :finished_after::timestamptz)
            and (:finished_before::timestamptz is null or finished.finished_at < :finished_before::timestamptz)
