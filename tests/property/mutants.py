"""What the state machine must find: known bugs of state, each put into one statement.

Those of the torture come again where no two sessions are needed to see them; the others are of what
only a model can judge, such as an order or a delay.
"""

from __future__ import annotations

from tests.mutants import Mutant
from tests.nemesis.mutants import MUTANTS as TORTURED

# What two sessions at once, or more tasks in one call, are needed for.
_LEFT_TO_OTHERS = {
    "key_taken_over_unseen",
    "reap_drops_what_is_locked",
    "resent_is_not_forgotten",
    "batch_loses_its_third",
    "keyed_batch_loses_its_fifth",
    "far_lease_keeps_token",
    "limit_without_its_lock",
    # The machine declares no schedules.
    "schedule_forgets_a_time",
    "schedule_claimed_by_all",
}
_ON_CANCEL = (
    (r"case when live\.cancel_requested_at is not null then 'canceled'\n *when", "case when"),
)
_BY_ATTEMPTS = (
    (r"live\.token = asked\.token", "live.attempts = asked.token"),
    (r"\n *and live\.lease_id = asked\.lease_id\b", ""),
)

FOUND = (
    *(mutant for name, mutant in TORTURED.items() if name not in _LEFT_TO_OTHERS),
    Mutant("complete_fenced_by_attempts", "leases/complete_tasks", _BY_ATTEMPTS),
    Mutant("fail_fenced_by_attempts", "leases/fail_tasks", _BY_ATTEMPTS),
    Mutant("give_back_fenced_by_attempts", "leases/give_back_tasks", _BY_ATTEMPTS),
    Mutant(
        "heartbeat_shortens",
        "leases/heartbeat_leases",
        ((r"greatest\(\n *lease\.expires_at \+ interval '1 microsecond',", "greatest("),),
    ),
    Mutant(
        "retry_without_delay",
        "leases/fail_tasks",
        ((r"\n *when asked\.retry_seconds > 0 then 'delayed'", ""),),
    ),
    Mutant(
        "lost_lease_without_delay",
        "maintenance/reap_leases",
        ((r"when 'fixed' then policy\.delay", "when 'fixed' then 0"),),
    ),
    Mutant(
        "reap_without_history",
        "maintenance/reap_leases",
        ((r"      from mine\n( *-- A row that stands)", r"      from mine where false\n\1"),),
    ),
    Mutant(
        "reap_ignores_cancel",
        "maintenance/reap_leases",
        _ON_CANCEL,
    ),
    Mutant(
        "give_back_ignores_cancel",
        "leases/give_back_tasks",
        _ON_CANCEL,
    ),
    Mutant(
        "snooze_for_ever",
        "leases/give_back_tasks",
        ((r"live\.snoozes >= :max_snoozes::integer", "false"),),
    ),
    Mutant(
        "release_for_ever",
        "leases/give_back_tasks",
        ((r"live\.releases >= :max_releases::integer", "false"),),
    ),
    Mutant(
        "fail_for_good_retries",
        "leases/fail_tasks",
        ((r"\n *when asked\.verdict = 'fail' then 'failed'", ""),),
    ),
    Mutant(
        "key_freed_too_early",
        "tasks/resolve_keys",
        ((r"coalesce\(finished\.key_until, finished\.keep_until\) > wherry\.now\(\)", "false"),),
    ),
    Mutant(
        "key_freed_with_its_retention",
        "tasks/resolve_keys",
        ((r"coalesce\(finished\.key_until, finished\.keep_until\)", "finished.keep_until"),),
    ),
    Mutant(
        "requeue_keeps_attempts",
        "tasks/requeue_tasks",
        ((r"id, position, token,", "id, position, attempts, token,"),
         (r"(returning finished\.id,)", r"\1 finished.attempts,"),
         (r"(nextval\('wherry\.position'::regclass\)), gone\.token",
          r"\1, gone.attempts, gone.token")),
    ),
    Mutant(
        "requeue_takes_a_key_that_is_taken",
        "tasks/requeue_tasks",
        ((r"where not standing\.taken", "where true"),),
    ),
    Mutant(
        "purge_leaves_the_key",
        "tasks/purge_tasks",
        ((r"and key\.task_id = named\.task_id", "and false"),),
    ),
    Mutant(
        "purge_takes_nothing_of_the_history",
        "tasks/purge_tasks",
        ((r"and attempt\.queue = picked\.queue", "and false"),),
    ),
    Mutant(
        "lease_ignores_priority",
        "leases/lease_tasks",
        ((r"order by live\.priority desc, live\.position", "order by live.position"),),
    ),
    Mutant(
        "lease_ignores_a_pause",
        "leases/lease_tasks",
        ((r"\n *and not exists \(select from wherry\.paused .*", ""),),
    ),
    Mutant(
        "lease_ignores_types",
        "leases/lease_tasks",
        ((r"live\.type = any \(:types::text\[\]\)", "true"),),
    ),
    Mutant(
        "lease_ignores_the_time_to_live",
        "leases/lease_tasks",
        ((r"live\.discard_at > wherry\.now\(\)", "true"),),
    ),
    Mutant(
        "lease_gives_one_more",
        "leases/lease_tasks",
        ((r":limit_tasks::integer", "(:limit_tasks::integer + 1)"),),
    ),
    Mutant(
        "lease_takes_delayed",
        "leases/lease_tasks",
        ((r"live\.state = 'ready'", "live.state in ('ready', 'delayed')"),),
    ),
    Mutant(
        "discard_takes_leased",
        "maintenance/discard_tasks",
        ((r"\n *and live\.state <> 'leased'", ""),),
    ),
    Mutant(
        "promote_late",
        "maintenance/promote_tasks",
        ((r"live\.run_after <= wherry\.now\(\)", "live.run_after < wherry.now()"),),
    ),
    Mutant(
        "promote_keeps_the_place",
        "maintenance/promote_tasks",
        ((r"position = nextval\('wherry\.position'::regclass\)", "position = live.position"),),
    ),
    Mutant(
        "result_is_dropped",
        "leases/complete_tasks",
        ((r"asked\.result, live\.last_error", "null::json as result, live.last_error"),),
    ),
    Mutant(
        "again_is_answered_lost",
        "leases/settled_tasks",
        ((r"then 'already_done'\n *when :verb", "then 'lost' when :verb"),),
    ),
)  # fmt: skip
