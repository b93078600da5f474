-- Store a part of a batch, tasks without keys that differ in nothing but their payloads, and wake the idle workers of
-- their queue. It says what enqueue_without_keys.sql says, for three quarters of the price: what they have in common is
-- read once, their ids follow one another, and so do their positions, for all of which one is drawn, if the sequence leaves
-- room for them: for a thousand, and for none where the schema is older (0022_positions_in_blocks.sql). Else each draws.
-- takes:   all as text or null: id bigint (the first; drawn ahead, as those that follow it), n integer (how many),
--          payloads (a json array), token bigint (from which theirs grow), queue, type, priority smallint,
--          delay_seconds double precision, run_after timestamptz, max_attempts integer, retry json,
--          timeout_seconds double precision, ttl_seconds double precision, tags text[], headers json, notify boolean
-- returns: woken (empty, or null where nobody was notified; text, since nobody reads it)
-- locks:   none
-- index:   none
with asked as materialized (
    select :id::text::bigint - 1 as before,
           case when :n::text::integer <= (
                     select seqincrement from pg_sequence where seqrelid = 'wherry.position'::regclass
                )
                then nextval('wherry.position'::regclass) - 1
                 end as place,
           :n::text::integer as n,
           :token::text::bigint as token,
           :queue::text as queue,
           :type::text as type,
           :priority::text::smallint as priority,
           coalesce(
               :run_after::text::timestamptz,
               wherry.now() + coalesce(:delay_seconds::text::double precision, 0) * interval '1 second'
           ) as run_after,
           :max_attempts::text::integer as max_attempts,
           :retry::text::json as retry,
           :timeout_seconds::text::double precision as timeout_seconds,
           :ttl_seconds::text::double precision as ttl_seconds,
           :tags::text::text[] as tags,
           :headers::text::json as headers,
           :notify::text::boolean as notify
),
placed as (
    insert into wherry.live (
           id, position, token, payload,
           created_at, run_after, discard_at, timeout_seconds, ttl_seconds, max_attempts, priority, state, queue, type, tags,
           headers, retry
    )
    select asked.before + each.ord,
           coalesce(asked.place + each.ord, nextval('wherry.position'::regclass)),
           asked.token,
           each.payload,
           -- part: as_asked
      from asked
     cross join lateral json_array_elements(:payloads::text::json) with ordinality as each (payload, ord)
),
counted as (
    insert into wherry.flow (at, n, kind, queue, type)
    select wherry.now(), asked.n,
           case when asked.run_after > wherry.now() then 'enqueued_delayed' else 'enqueued' end,
           asked.queue, asked.type
      from asked
)
select case when asked.notify
                 and asked.run_after < wherry.now() + interval '5 seconds'
                 and exists (
                     select from wherry.waiting
                      where waiting.queue in (asked.queue, '')
                        and waiting.expires_at > wherry.now()
                 )
            then (select pg_notify(settings.channel, asked.queue)::text from wherry.settings)
             end as woken
  from asked
