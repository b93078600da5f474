-- Draw ids ahead, so that an enqueue whose answer was lost can be sent again as the same tasks.
-- takes:   n integer
-- returns: id
-- locks:   none
-- index:   none
select nextval('wherry.task_id'::regclass) as id
  from generate_series(1, :n::integer)
