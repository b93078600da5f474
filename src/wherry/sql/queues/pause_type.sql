-- Pause a type: nothing of it is leased until it is resumed. What is paused stays as it was.
-- takes:   type text, queue text (empty: in all of them), actor text, reason text
-- returns: type; nothing if it was paused there already
-- locks:   the row of type and queue
-- index:   paused_type_pkey
insert into wherry.paused_type (type, queue, paused_at, actor, reason)
values (:type::text, :queue::text, wherry.now(), :actor::text, :reason::text)
    on conflict (queue, type) do nothing
returning paused_type.type
