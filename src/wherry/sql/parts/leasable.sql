-- Which of a queue's ready tasks may be leased, and in which order. It ends a select from live, and locks.
-- needs: takes the parameters queue text, types text[] (null: any), limit_tasks integer
-- gives: the rest of the conditions on rows of live, which are ready tasks of this queue
              and (:types::text[] is null or live.type = any (:types::text[]))
              and (live.discard_at is null or live.discard_at > wherry.now())
              -- Of no row, so these are looked at once.
              and live.type <> all (array(
                      select paused_type.type from wherry.paused_type where paused_type.queue in ('', :queue::text)
                  ))
              and not exists (select from wherry.paused where paused.queue = :queue::text)
            order by live.priority desc, live.position
            limit :limit_tasks::integer
              for update skip locked
