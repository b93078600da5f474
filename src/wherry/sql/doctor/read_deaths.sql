-- Count the tasks that ended badly in the last hour and in the hour before; of the last hour, by type. They are
-- found by the day on which their retention ends.
-- takes:   nothing
-- returns: type, last_hour, hour_before
-- locks:   none
-- index:   finished_dead
select finished.type,
       count(*) filter (where finished.finished_at > wherry.now() - interval '1 hour') as last_hour,
       count(*) filter (where finished.finished_at <= wherry.now() - interval '1 hour') as hour_before
  from wherry.finished
 where finished.state in ('dead', 'failed')
   and finished.finished_at > wherry.now() - interval '2 hours'
   and finished.keep_until > wherry.now() - interval '2 hours' + (select settings.keep_failed from wherry.settings)
 group by finished.type
 order by last_hour desc, finished.type
