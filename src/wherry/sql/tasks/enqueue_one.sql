-- Store one task without a key, and wake an idle worker of its queue. It says what enqueue_without_keys.sql says, in the
-- form that costs least for one: most of such a statement's time is setting its plan up, so every node counts. There is
-- no conflict to look for, since nobody else has this id: what is sent again comes through enqueue_tasks.sql.
-- takes:   all as text or null: id (null to draw it here), token bigint (from which it grows), queue, type, payload json, priority smallint, delay_seconds
--          double precision, run_after timestamptz, max_attempts integer, retry json, timeout_seconds double precision,
--          ttl_seconds double precision, tags text[], headers json, notify boolean
-- returns: id, woken (empty, or null where nobody was notified); both are text, since a caller's driver may read no
--          other type as we do
-- locks:   none
-- index:   none
with counted as (
    insert into wherry.flow (at, n, kind, queue, type)
    values (
           wherry.now(), 1,
           -- Hardly any has either of them, and what is not looked at costs nothing.
           case when :run_after::text::timestamptz is null
                     and :delay_seconds::text::double precision is null then 'enqueued'
                when coalesce(
                         :run_after::text::timestamptz,
                         wherry.now() + :delay_seconds::text::double precision * interval '1 second'
                     ) > wherry.now() then 'enqueued_delayed'
                else 'enqueued'
                 end,
           :queue::text, :type::text
    )
)
insert into wherry.live (
       id, position, token, created_at, run_after, discard_at, timeout_seconds, ttl_seconds, max_attempts, priority, state,
       queue, type, tags, headers, retry, payload
)
select coalesce(:id::text::bigint, nextval('wherry.task_id'::regclass)),
       nextval('wherry.position'::regclass),
       :token::text::bigint,
       wherry.now(),
       due.run_after,
       wherry.now() + :ttl_seconds::text::double precision * interval '1 second',
       :timeout_seconds::text::double precision,
       :ttl_seconds::text::double precision,
       :max_attempts::text::integer,
       :priority::text::smallint,
       case when due.run_after > wherry.now() then 'delayed' else 'ready' end,
       :queue::text,
       :type::text,
       :tags::text::text[],
       :headers::text::json,
       :retry::text::json,
       :payload::text::json
  from (
       select coalesce(
                  :run_after::text::timestamptz,
                  wherry.now() + coalesce(:delay_seconds::text::double precision, 0) * interval '1 second'
              ) as run_after
  ) as due
returning live.id::text as id,
          case when :notify::text::boolean
                    and live.run_after < wherry.now() + interval '5 seconds'
                    and exists (
                        select from wherry.waiting
                         where waiting.queue in (live.queue, '')
                           and waiting.expires_at > wherry.now()
                    )
               then (select pg_notify(settings.channel, live.queue)::text from wherry.settings)
                end as woken
