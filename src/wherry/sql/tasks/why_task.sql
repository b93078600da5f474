-- Tell what is known of one task, of its queue and of who serves that, for the reasons why it is where it is.
-- takes:   id bigint, most integer (no more of the tasks that stand ahead of it are counted)
-- returns: id, queue, type, state (of live: ready, delayed, parked, leased; or a final one), priority, attempts,
--          max_attempts, snoozes, run_after, started_at, finished_at, discard_at, cancel_requested_at, reason,
--          error, holder, lease_expires_at, now, paused_at, paused_by, pause_reason, type_pauses (text of a json array, if a queued
--          task's type is paused: of each of its pauses, that in all queues first: paused_at, actor, reason, queue), limits (text of a json object,
--          if a queued task's queue has limits: they, how many are running, who holds most of them, and in how many seconds the
--          next may start), attempt (text of a json object of the
--          newest attempt that did not succeed: attempt, outcome, error, worker, retry_at; null if there is none),
--          workers (the same: how many are alive, serve the queue, fit (also know the type), and of those drain),
--          ahead (how many ready tasks stand ahead of a ready one, most at most)
-- locks:   none
-- index:   live_pkey, finished_pkey, lease_pkey, attempt_pkey, live_ready, front_pkey, paused_pkey, paused_type_pkey, limited_pkey, lease_by_queue
with asked as materialized (
    select live.id, live.queue, live.type, live.state, live.priority::integer as priority, live.position,
           live.attempts, live.max_attempts, live.snoozes, live.run_after, live.leased_at as started_at,
           null::timestamptz as finished_at, live.discard_at, live.cancel_requested_at,
           live.cancel_reason as reason, live.last_error as error, lease.worker as holder,
           lease.expires_at as lease_expires_at
      from wherry.live
      left join lateral (
           select l.worker, l.expires_at
             from wherry.lease l
            where live.state = 'leased'
              and l.lease_id = live.lease_id
              and (not l.split or live.id = any (l.task_ids))
            limit 1
      ) as lease on true
     where live.id = :id::bigint
     union all
    select finished.id, finished.queue, finished.type, finished.state, finished.priority::integer, null::bigint,
           finished.attempts, finished.max_attempts, 0, finished.run_after, finished.leased_at,
           finished.finished_at, null::timestamptz, null::timestamptz, finished.reason, finished.last_error,
           finished.worker, null::timestamptz
      from wherry.finished
     where finished.id = :id::bigint
)
select asked.id, asked.queue, asked.type, asked.state, asked.priority, asked.attempts, asked.max_attempts,
       asked.snoozes, asked.run_after, asked.started_at, asked.finished_at, asked.discard_at,
       asked.cancel_requested_at, asked.reason, asked.error, asked.holder, asked.lease_expires_at,
       wherry.now() as now, paused.paused_at, paused.actor as paused_by, paused.reason as pause_reason,
       (select json_agg(
                   json_build_object(
                       'paused_at', paused_type.paused_at, 'actor', paused_type.actor, 'reason', paused_type.reason,
                       'queue', paused_type.queue
                   )
                   order by paused_type.queue
               )
          from wherry.paused_type
         where paused_type.type = asked.type
           and paused_type.queue in ('', asked.queue)
           and asked.state in ('ready', 'delayed', 'parked'))::text as type_pauses,
       (select json_build_object(
                   'max_running', limited.max_running,
                   'rate', limited.rate,
                   'per_seconds', limited.per_seconds,
                   'burst', limited.burst,
                   'running', wherry.running_in(limited.queue, limited.max_running),
                   'holders', array(
                       select lease.worker
                         from wherry.lease
                        where lease.queue || '' = limited.queue
                        group by lease.worker
                        order by count(*) desc, lease.worker
                        limit 3
                   ),
                   'starts_in', (1 - limited.credit) * limited.per_seconds / limited.rate
                                - date_part('epoch', wherry.now() - limited.noted_at)
               )
          from wherry.limited
         where limited.queue = asked.queue
           and asked.state in ('ready', 'delayed', 'parked'))::text as limits,
       (select json_build_object(
                   'attempt', attempt.attempt,
                   'outcome', attempt.outcome,
                   'error', coalesce(attempt.error_type || ': ' || attempt.message, attempt.error_type, attempt.message),
                   'worker', attempt.worker,
                   'retry_at', attempt.retry_at
               )
          from wherry.attempt
         where attempt.task_id = asked.id
           and attempt.queue = asked.queue
         order by attempt.token desc
         limit 1)::text as attempt,
       (select json_build_object(
                   'alive', count(*),
                   'serve', count(*) filter (where seen.serves),
                   'fit', count(*) filter (where seen.serves and seen.knows),
                   'drain', count(*) filter (where seen.serves and seen.knows and seen.directive <> 'none')
               )
          from (select worker.queues is null or asked.queue = any (worker.queues) as serves,
                       worker.types is null or asked.type = any (worker.types) as knows,
                       worker.directive
                  from wherry.worker
                 where worker.expires_at > wherry.now()) as seen)::text as workers,
       (select count(*)
          from (select from unnest(
                       coalesce(newest.highs, '{100}'),
                       coalesce(newest.lows, '{-100}'),
                       coalesce(newest.starts, '{-9223372036854775808}')
                ) as stretch (high, low, start)
                 cross join lateral (
                       (select live.id
                          from wherry.live
                         where live.queue = asked.queue
                           and live.state = 'ready'
                           and live.priority between greatest(stretch.low, asked.priority + 1) and stretch.high
                           and live.position >= stretch.start
                         order by live.priority desc, live.position
                         limit :most::integer)
                        union all
                       (select live.id
                          from wherry.live
                         where live.queue = asked.queue
                           and live.state = 'ready'
                           and live.priority = asked.priority
                           and live.priority between stretch.low and stretch.high
                           and live.position >= stretch.start
                           and live.position < asked.position
                         order by live.priority desc, live.position
                         limit :most::integer)
                 ) as before
                 where asked.state = 'ready'
                 limit :most::integer) as found) as ahead
  from asked
  left join wherry.paused
    on paused.queue = asked.queue
  -- part: newest_front
