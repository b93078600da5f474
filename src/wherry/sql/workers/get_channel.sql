-- The channel on which this schema notifies.
-- takes:   nothing
-- returns: channel
-- locks:   none
-- index:   none
select settings.channel
  from wherry.settings
