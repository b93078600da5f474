-- What is told of a lease.
-- needs: an update of live
-- gives: a Lease, without its queue and its deadline; payload_text is null where the payload stands apart
--        (read_payloads.sql): to look for it here would cost each lease of small ones 4 us
returning live.id, live.type, live.payload::text as payload_text, live.priority, live.position,
          live.attempts as attempt, live.max_attempts, live.token, live.lease_id::text as lease_id,
          -- Few ask for these, and a column costs its reader more than its text: so the moments are one, in
          -- microseconds, and of what hardly any task has there is none.
          encode(
              timestamptz_send(live.run_after) || timestamptz_send(live.created_at) || timestamptz_send(live.leased_at),
              'hex'
          ) as times,
          case when live.timeout_seconds is null and live.key is null and live.tags is null and live.headers is null
                    and live.retry is null and live.last_error is null and live.snoozes = 0 then null
               else json_build_array(
                        live.timeout_seconds, live.key, live.tags, live.headers::text, live.retry::text,
                        live.last_error, live.snoozes
                    )::text
                end as rare
