-- Tell when the next schedule is to be looked at.
-- takes:   nothing
-- returns: next_in (in so many seconds; negative if it is due; null if there is none)
-- locks:   none
-- index:   schedule_due
select (
           select extract(epoch from schedule.due_at - wherry.now())::double precision
             from wherry.schedule
            where schedule.due_at is not null
            order by schedule.due_at
            limit 1
       ) as next_in
