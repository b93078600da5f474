-- Payloads that are changed while their tasks are put back.
-- Locks: none; every object is new.

-- What a JSON merge patch (RFC 7396) makes of a value: members of an object are set, one that is null is taken away,
-- and all else takes the value's place. What the patch does not name stays as it was written, digit by digit, and where
-- it stood: json keeps that, jsonb does not. Of a member that stands twice the last one counts, where the patch names it.
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

-- A payload with a patch merged into it, or null if it is none that one can be merged into: no object, or one with a
-- name that no text can hold (plain SQL can have stored it). An answer, and no error, so that others of the same
-- statement are not harmed.
create function wherry.merge_payload(payload json, patch json) returns json
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
    as $$
begin
    if json_typeof(merge_payload.payload) is distinct from 'object' then
        return null;
    end if;
    return wherry.merge_patch(merge_payload.payload, merge_payload.patch);
exception
    when untranslatable_character or invalid_text_representation then
        return null;
end
$$;
revoke all on function wherry.merge_payload(json, json) from public;
