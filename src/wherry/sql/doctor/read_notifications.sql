-- Tell how full the queue of notifications is, from 0 to 1. A full one fails every commit that notifies.
-- takes:   nothing
-- returns: used
-- locks:   none
-- index:   none
select pg_notification_queue_usage() as used
