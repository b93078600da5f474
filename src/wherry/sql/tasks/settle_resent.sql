-- After an enqueue was sent again: take back what had already arrived, run and finished in between; and refuse it all
-- (a unique violation of live_pkey) if one of its ids names a task of others, which it does only if the database has
-- gone back in time since it was drawn.
-- takes:   ids bigint[], token bigint (with which this call's tasks begin)
-- returns: id
-- locks:   our own uncommitted rows
-- index:   live_pkey, finished_pkey
select again.id
  from wherry.settle_resent(:ids::bigint[], :token::bigint) as again (id)
