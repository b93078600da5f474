-- Give leased tasks that no lease row vouches for one that has run out: the reaper takes them back at its
-- next pass. Nothing in Wherry makes such a task (it and its lease row are written together); a hand in
-- the database can, and the task must not wait for ever.
-- takes:   batch integer (tasks)
-- returns: lease_id
-- locks:   the tasks, skip locked
-- index:   none: reads live once, so it runs rarely
with found as materialized (
    select live.id, live.queue, live.token, live.lease_id, coalesce(live.lease_id, gen_random_uuid()) as new_lease_id
      from wherry.live
     where live.state = 'leased'
       and not exists (
           select from wherry.lease
            where lease.lease_id = live.lease_id
              and live.id = any (lease.task_ids)
       )
     limit :batch::integer
),
-- As it was found: it may have been taken back meanwhile, and leased again with a row too new for us to see.
orphan as materialized (
    select live.id, live.queue, found.new_lease_id
      from found
      join wherry.live
        on live.id = any (array(select found.id from found))
       and live.id = found.id
       and live.queue = found.queue
       and live.state = 'leased'
       and live.token = found.token
       and live.lease_id is not distinct from found.lease_id
     order by live.id
       for update of live skip locked
),
marked as (
    update wherry.live
       set lease_id = orphan.new_lease_id
      from orphan
     where live.id = any (array(select orphan.id from orphan))
       and live.id = orphan.id
       and live.queue = orphan.queue
       and live.lease_id is null
)
insert into wherry.lease (lease_id, part, expires_at, split, queue, worker, task_ids)
select orphan.new_lease_id,
       -- Random, as where a heartbeat splits a row: another part of this lease may be there.
       1 + floor(random() * 2147483646)::integer,
       wherry.now(), true, orphan.queue, 'unknown', array[orphan.id]
  from orphan
returning lease.lease_id::text as lease_id
