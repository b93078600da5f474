-- After an enqueue was sent again: take back what had already arrived, run and finished in between.
-- A row that left live for finished was committed there before ours could be stored, so this newer
-- statement sees it.
-- takes:   ids bigint[]
-- returns: id
-- locks:   our own uncommitted rows
-- index:   live_pkey, finished_pkey
delete from wherry.live
 using wherry.finished
 where live.id = any (:ids::bigint[])
   and finished.id = live.id
   and finished.queue = live.queue
   and live.token = 0
returning live.id
