-- Write down how far schedules are settled, and when they are looked at again.
-- takes:   settled json array of (name, next_at, last_at (null: as before), due_in_seconds (null: at next_at), rests (whether
--          it is not looked at again until a worker declares it), running, fired, missed_ticks, overlapped, paused_ticks (so
--          many more), trouble), each name once
-- returns: nothing
-- locks:   those schedules, which are ours
-- index:   schedule_pkey
update wherry.schedule
   set next_at = settled.next_at,
       last_at = coalesce(settled.last_at, schedule.last_at),
       due_at = case when settled.rests or schedule.paused_at is not null then null
                     when settled.due_in_seconds is null then settled.next_at
                     else wherry.now() + settled.due_in_seconds * interval '1 second'
                      end,
       running = settled.running,
       fired = schedule.fired + settled.fired,
       missed_ticks = schedule.missed_ticks + settled.missed_ticks,
       overlapped = schedule.overlapped + settled.overlapped,
       paused_ticks = schedule.paused_ticks + settled.paused_ticks,
       trouble = settled.trouble
  from json_to_recordset(:settled::json) as settled (
       name text, next_at timestamptz, last_at timestamptz, due_in_seconds double precision, rests boolean,
       running bigint[], fired bigint, missed_ticks bigint, overlapped bigint, paused_ticks bigint, trouble text
  )
 where schedule.name = settled.name
