"""Known bugs to put into the product, one at a time, to see whether the checker notices.

Each changes the text of one statement as it is loaded, or one function, in the processes of the run
only.
"""

from __future__ import annotations

import json
import os
import pkgutil
import random
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from typing import Any
from unittest import mock

from tests.mutants import Mutant
from wherry.commands.base import Rows, Statement

VARIABLE = "NEMESIS_MUTANT"

# Whole lines, since those of the statements are one clause each.
_TOKEN_AND_LEASE = (
    (r"\n *and live\.token = asked\.token\b", ""),
    (r"\n *and live\.lease_id = asked\.lease_id\b", ""),
)
_UNEXPIRED = (r"\n *and lease\.expires_at .*wherry\.now\(\).*", "")

_UNDONE = """
undone as (
    update wherry.finished
       set state = 'canceled'
     where finished.id = any (:ids::bigint[])
       and finished.state = 'succeeded'
),
gone as ("""

MUTANTS = {
    mutant.name: mutant
    for mutant in (
        Mutant("complete_without_fence", "leases/complete_tasks", _TOKEN_AND_LEASE),
        Mutant("fail_without_fence", "leases/fail_tasks", _TOKEN_AND_LEASE),
        Mutant("give_back_without_fence", "leases/give_back_tasks", _TOKEN_AND_LEASE),
        Mutant("complete_after_expiry", "leases/complete_tasks", (_UNEXPIRED,)),
        Mutant("heartbeat_revives", "leases/heartbeat_leases", (_UNEXPIRED,)),
        Mutant(
            "complete_in_transaction_without_fence",
            "leases/complete_in_transaction",
            ((r"\n *and live\.token = :token.*", ""),
             (r"\n *and live\.lease_id = :lease_id.*", "")),
        ),
        Mutant(
            "lease_keeps_token",
            "leases/lease_tasks",
            ((r"token = live\.token \+ 1", "token = greatest(live.token, 1)"),),
        ),
        Mutant(
            "reap_early",
            "maintenance/reap_leases",
            ((r"(where|and) lease\.expires_at .*",
              r"\1 lease.expires_at <= wherry.now() + '0.3 s'"),),
        ),
        Mutant(
            "reap_without_limit",
            "maintenance/reap_leases",
            ((r"\n *when live\.attempts >= live\.max_attempts then 'dead'", ""),),
        ),
        Mutant(
            "reap_drops_what_is_locked",
            "maintenance/reap_leases",
            ((r"and live\.id not in \(select mine\.id from mine\)", "and false"),),
        ),
        Mutant(
            "fail_ignores_cancel",
            "leases/fail_tasks",
            ((r"case when live\.cancel_requested_at is not null or", "case when"),),
        ),
        Mutant(
            "release_counts",
            "leases/give_back_tasks",
            ((r"else live\.attempts - 1", "else live.attempts"),),
        ),
        Mutant(
            "dead_without_history",
            "leases/fail_tasks",
            ((r"from mine\n *on conflict \(task_id",
              "from mine where mine.next_state <> 'dead' on conflict (task_id"),),
        ),
        Mutant(
            "key_taken_over_unseen",
            "tasks/enqueue_tasks",
            ((r"case when held\.stamp = excluded\.seen_stamp then", "case when true then"),),
        ),
        Mutant(
            "key_never_free",
            "tasks/resolve_keys",
            ((r"coalesce\(finished\.key_until, finished\.keep_until\) > wherry\.now\(\)", "true"),),
        ),
        Mutant(
            "resent_is_not_forgotten",
            "tasks/settle_resent",
            ((r":ids::bigint\[\]", "(:ids::bigint[])[2:1]"),),
        ),
        Mutant(
            "cancel_ends_leased",
            "tasks/cancel_tasks",
            ((r"case when live\.state <> 'leased' then 'canceled' end", "'canceled'"),),
        ),
        Mutant(
            "cancel_undoes_complete",
            "tasks/cancel_tasks",
            ((r"\ngone as \(", _UNDONE),),
        ),
        Mutant(
            "batch_loses_its_third",
            "tasks/enqueue_without_keys",
            ((r"as each \(id, payload\)",
              "as each (id, payload) where each.id is distinct from asked.ids[3]"),),
        ),
        Mutant(
            "keyed_batch_loses_its_fifth",
            "tasks/enqueue_tasks",
            ((r"where (\(named\.task_id is null .*\))", r"where asked.ord <> 5 and \1"),),
        ),
        Mutant(
            "one_is_stored_under_another_id",
            "tasks/enqueue_one",
            ((r"coalesce\(:id::text::bigint, (nextval\('wherry\.task_id'::regclass\))\)", r"\1"),),
        ),
        Mutant(
            "promote_takes_leased",
            "maintenance/promote_tasks",
            ((r"\(live\.state = 'delayed'\) is true", "true"),
             (r"where live\.state = 'delayed'\n(.*run_after <= )",
              r"where live.state in ('delayed', 'leased')\n\1")),
        ),
        Mutant(
            "requeue_forgets_token",
            "tasks/requeue_tasks",
            ((r"nextval\('wherry\.position'::regclass\), gone\.token",
              "nextval('wherry.position'::regclass), 0"),),
        ),
        Mutant(
            "far_lease_keeps_token",
            "leases/lease_for_pollers",
            ((r"token = live\.token \+ 1", "token = greatest(live.token, 1)"),),
        ),
        Mutant(
            "limit_without_its_lock",
            "leases/lease_tasks",
            ((r"wherry\.room_in\(limited\.queue\)",
              "limited.max_running - wherry.running_in(limited.queue, limited.max_running)"),),
        ),
        Mutant(
            "schedule_forgets_a_time",
            "schedules/settle_schedules",
            ((r"set next_at = settled\.next_at",
              "set next_at = settled.next_at + trunc(random() * 1.2) * interval '2 seconds'"),),
        ),
        Mutant(
            "schedule_claimed_by_all",
            "schedules/lock_due_schedules",
            ((r"\n *for update skip locked", ""),),
        ),
    )
}  # fmt: skip


def _drawn_anew(_again: Any) -> Any:
    def again(self: Any) -> Any:
        return replace(self, ids=None)

    return again


def _dealt_twice(poll: Any) -> Any:
    answered: dict[tuple[str, ...], list[Any]] = {}

    async def dealing_twice(self: Any, asked: Any) -> list[Any]:
        leases: list[Any] = await poll(self, asked)
        before = answered.pop(asked.queues, [])
        answered[asked.queues] = leases
        return [*leases, *before][: asked.max_tasks]

    return dealing_twice


def _settled_again(settle: Any) -> Any:
    """Go back to times that were seen to, now and then, and do not look whether they were."""

    def again(names: Sequence[str]) -> Generator[Statement, Rows, Any]:
        steps = settle(names)
        try:
            statement = next(steps)
            while True:
                params = dict(statement.params)
                ticks = json.loads(str(params.get("ticks", "[]")))
                if statement.name == "schedules/settle_schedules" and random.random() < 0.2:
                    settled = json.loads(str(params["settled"]))
                    backs = [
                        each | {"next_at": each["last_at"] or each["next_at"]} for each in settled
                    ]
                    params["settled"] = json.dumps(backs)
                rows = yield Statement(statement.name, params)
                if ticks:
                    rows = [
                        (each["schedule"], datetime.fromisoformat(each["planned_at"]))
                        for each in ticks
                    ]
                statement = steps.send(rows)
        except StopIteration as end:
            return end.value

    return again


# Bugs of which no statement knows: a function, by name, and what it becomes.
FUNCTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "resend_draws_anew": ("wherry.commands.tasks.EnqueueTasks.again", _drawn_anew),
    "schedule_settled_again": ("wherry.commands.scheduling.settle", _settled_again),
    "desk_deals_twice": ("wherry.server.desk.Desk.poll", _dealt_twice),
}
# Not a statement's text, but a setting: nothing waits for the disk.
ASYNC_COMMIT = "commit_without_waiting"
NAMES = (*MUTANTS, *FUNCTIONS, ASYNC_COMMIT)
# Kept for as long as the process lives: a context that nobody holds is left at once.
_put_in = ExitStack()


def apply() -> None:
    """Put in the mutant that the environment names, if it names one, for good."""
    name = os.environ.get(VARIABLE)
    if not name:
        return
    if name == ASYNC_COMMIT:
        mock.patch.dict("wherry.transport.connect._OPTIONS", synchronous_commit="off").start()
        return
    if name in FUNCTIONS:
        target, spoil = FUNCTIONS[name]
        mock.patch(target, spoil(pkgutil.resolve_name(target))).start()
        return
    _put_in.enter_context(MUTANTS[name].put_in())
