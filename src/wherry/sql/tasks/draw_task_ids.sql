-- Draw ids ahead, so that an enqueue whose answer was lost can be sent again as the same tasks.
-- The message is for nobody: it makes the draw's commit wait for the disk. PostgreSQL logs a sequence
-- 32 values ahead, so whoever draws among those has nothing of its own to wait for; and if the
-- transaction that logged them has not been flushed when the server crashes, they are drawn again.
-- takes:   n integer, as text
-- returns: ids (a json array, as text: a row for each would cost twice as much)
-- locks:   none
-- index:   none
with flushed as materialized (
    select pg_logical_emit_message(true, 'wherry', '') as lsn
),
drawn as materialized (
    select nextval('wherry.task_id'::regclass) as id
      from flushed
     cross join generate_series(1, :n::text::integer)
)
select coalesce(json_agg(drawn.id), '[]')::text as ids
  from drawn
