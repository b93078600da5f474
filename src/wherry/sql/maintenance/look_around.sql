-- Tell what maintenance there is to do, and when the next of it is due: one look in place of a step of each kind that
-- finds nothing. It changes nothing and locks nothing; each step looks for itself again.
-- takes:   ready boolean (whether to look for ready tasks too, which only parking asks about)
-- returns: lease_ends_in, due_in, discard_in (seconds until the first lease ends, the first delayed task is due, the
--          first time to live is over; null if there is none, negative if it has passed), parked, ready (whether
--          there is any such task), chores (which are due), schedule_in (seconds until the next schedule is due)
-- locks:   none
-- index:   lease_by_expiry, live_delayed, live_discard, live_parked_in_queue, live_ready, chore_pkey, schedule_due
select (select extract(epoch from lease.expires_at - wherry.now())::double precision
          from wherry.lease
         order by lease.expires_at
         limit 1) as lease_ends_in,
       (select extract(epoch from live.run_after - wherry.now())::double precision
          from wherry.live
         where live.state = 'delayed'
         order by live.run_after
         limit 1) as due_in,
       (select extract(epoch from live.discard_at - wherry.now())::double precision
          from wherry.live
         where live.discard_at is not null
           and live.state <> 'leased'
         order by live.discard_at
         limit 1) as discard_in,
       -- Ordered, so that only the index of these tasks will do.
       (select true
          from wherry.live
         where live.state = 'parked'
         order by live.type
         limit 1) is not null as parked,
       -- Where there are fronts there have been many, and a look would walk past all that vacuum may not remove.
       case when not :ready::boolean then false
            when exists (select from wherry.front offset 0) then true
            else (select true
                    from wherry.live
                   where live.state = 'ready'
                   order by live.queue
                   limit 1) is not null
             end as ready,
       array(select chore.name from wherry.chore where chore.due_at <= wherry.now() order by chore.name) as chores,
       (select extract(epoch from schedule.due_at - wherry.now())::double precision
          from wherry.schedule
         where schedule.due_at is not null
         order by schedule.due_at
         limit 1) as schedule_in
