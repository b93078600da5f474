-- Tell how long the first delayed task has been due without anybody promoting it.
-- takes:   nothing
-- returns: late_seconds (negative: it is not due); no row if no task is delayed
-- locks:   none
-- index:   live_delayed
select extract(epoch from wherry.now() - live.run_after)::double precision as late_seconds
  from wherry.live
 where live.state = 'delayed'
 order by live.run_after
 limit 1
