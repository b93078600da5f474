-- Payloads that are changed while their tasks are put back.
-- Locks: none; every object is new.

-- What a JSON merge patch (RFC 7396) makes of a value: members of an object are set, one that is null is taken away,
-- and all else takes the value's place. Values that the patch does not name stay as they were written, digit by digit,
-- and where they stood: json keeps that, jsonb does not. The names beside them are written anew ("\u00e9" becomes "é").
-- Of a member that stands twice the last one counts, where the patch names it.
create function wherry.merge_patch(value json, patch json) returns json
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    members text;
begin
    if json_typeof(merge_patch.patch) <> 'object' then
        return merge_patch.patch;
    end if;
    with own as materialized (
        select m.key, m.value, m.nth, max(m.nth) over (partition by m.key) as last_nth
          from json_each(
                   case when json_typeof(merge_patch.value) = 'object' then merge_patch.value else '{}' end
               ) with ordinality as m (key, value, nth)
    ),
    named as materialized (
        select m.key, m.value, m.nth
          from json_each(merge_patch.patch) with ordinality as m (key, value, nth)
    ),
    merged as (
        select own.key, 1 as part, own.nth,
               case when named.key is null then own.value
                    else wherry.merge_patch(own.value, named.value)
                     end as value
          from own
          left join named
            on named.key = own.key
         where named.key is null
            or json_typeof(named.value) <> 'null' and own.nth = own.last_nth
         union all
        select named.key, 2 as part, named.nth, wherry.merge_patch(null, named.value) as value
          from named
         where json_typeof(named.value) <> 'null'
           and not exists (select from own where own.key = named.key)
    )
    select string_agg(to_json(m.key)::text || ':' || m.value::text, ',' order by m.part, m.nth)
      into members
      from merged m;
    return ('{' || coalesce(members, '') || '}')::json;
end
$$;
revoke all on function wherry.merge_patch(json, json) from public;

-- A payload with a patch merged into it, or null if one of the two is no object, or has a name or a string that no text
-- can hold (plain SQL can have stored it). An answer, and no error, so that others of the same statement are not harmed.
create function wherry.merge_payload(payload json, patch json) returns json
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
    as $$
begin
    if json_typeof(merge_payload.payload) is distinct from 'object'
       or json_typeof(merge_payload.patch) is distinct from 'object' then
        return null;
    end if;
    return wherry.merge_patch(merge_payload.payload, merge_payload.patch);
exception
    when untranslatable_character or invalid_text_representation then
        return null;
end
$$;
revoke all on function wherry.merge_payload(json, json) from public;

-- What a key keeps of the payload that it names; the same for payloads that are equal. One that jsonb does not hold
-- (1e200000, say: no door lets it in, and plain SQL can have stored it) is known by its letters.
create function wherry.payload_hash(type text, payload json) returns bytea
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
    as $$
begin
    return sha256(convert_to(payload_hash.type || ' ' || payload_hash.payload::jsonb::text, 'UTF8'));
exception
    when numeric_value_out_of_range or untranslatable_character or invalid_text_representation then
        return sha256(convert_to(payload_hash.type || ' ' || payload_hash.payload::text, 'UTF8'));
end
$$;
revoke all on function wherry.payload_hash(text, json) from public;
