-- Notify of queues whose tasks are ready now, or very soon, if somebody waits for them. It runs only
-- where the final select reads it.
-- needs: arrived (queue), each once
-- gives: woken, one row a notification
woken as (
    select pg_notify(settings.channel, arrived.queue)
      from arrived
     cross join wherry.settings
     where exists (
           select from wherry.waiting
            where waiting.queue in (arrived.queue, '')
              and waiting.expires_at > wherry.now()
           )
)
