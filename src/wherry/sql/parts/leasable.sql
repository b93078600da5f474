-- Which of a queue's ready tasks may be leased, and in which order. It ends a select from live, and locks.
-- needs: takes the parameters queue text, types text[] (null: any), limit_tasks integer
-- gives: the rest of the conditions on rows of live, which are ready tasks of this queue
              and (:types::text[] is null or live.type = any (:types::text[]))
              and (live.discard_at is null or live.discard_at > wherry.now())
              -- The last two are of no row, so they are looked at once.
              -- Of an array that it does not know the planner takes ten for paused. As `<> all` that left nothing of tasks
              -- that are all of one type, and any index will do to sort nothing: each lease read and sorted all that waits.
              and case when live.type = any (array(
                       select paused_type.type from wherry.paused_type where paused_type.queue in ('', :queue::text)
                  )) then false else true end
              and not exists (select from wherry.paused where paused.queue = :queue::text)
            order by live.priority desc, live.position
            limit :limit_tasks::integer
              for update skip locked
