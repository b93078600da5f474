-- After an enqueue was sent again: take back what had already arrived, run and finished in between.
-- A row that left live for finished was committed there before ours could be stored, so this newer
-- statement sees it.
-- takes:   ids bigint[]
-- returns: id
-- locks:   our own uncommitted rows
-- index:   live_pkey, finished_pkey
select again.id
  from wherry.forget_resent(:ids::bigint[]) as again (id)
