-- Tell whether large payloads stand apart from their tasks.
-- takes:   nothing
-- returns: payloads_apart
-- locks:   none
-- index:   none
select s.payloads_apart
  from wherry.settings s
