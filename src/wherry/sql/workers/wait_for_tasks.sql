-- An idle worker makes itself known: from now on an enqueue for its queues notifies.
-- takes:   instance uuid, queues text[] ('' stands for every queue), wait_seconds double precision
-- returns: nothing
-- locks:   the worker's own rows
-- index:   waiting_pkey
insert into wherry.waiting (queue, instance, expires_at)
select q.queue, :instance::uuid, wherry.now() + :wait_seconds::double precision * interval '1 second'
  from unnest(:queues::text[]) as q (queue)
 order by q.queue
    on conflict (queue, instance) do update
   set expires_at = excluded.expires_at
