"""Known bugs to put into the product, one at a time, to see whether the checker notices.

A suite that finds nothing may be blind. Each mutant changes the text of one statement as it is
loaded, in the processes of the run only; a text that is not there any more is an error, so that no
mutant turns harmless unnoticed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from unittest import mock

from wherry.transport import render

VARIABLE = "NEMESIS_MUTANT"


@dataclass(frozen=True, slots=True)
class Mutant:
    """In *statement*, each of these texts is replaced by the other."""

    name: str
    statement: str
    changes: tuple[tuple[str, str], ...]


_FENCE = "       and live.token = asked.token\n       and live.lease_id = asked.lease_id\n"
_UNEXPIRED = "       and lease.expires_at > wherry.now()\n"
_SEEN = "case when held.stamp = excluded.seen_stamp then"

MUTANTS = {
    mutant.name: mutant
    for mutant in (
        Mutant("complete_without_fence", "leases/complete_tasks", ((_FENCE, ""),)),
        Mutant("fail_without_fence", "leases/fail_tasks", ((_FENCE, ""),)),
        Mutant("give_back_without_fence", "leases/give_back_tasks", ((_FENCE, ""),)),
        Mutant("complete_after_expiry", "leases/complete_tasks", ((_UNEXPIRED, ""),)),
        Mutant("heartbeat_revives", "leases/heartbeat_leases", ((_UNEXPIRED, ""),)),
        Mutant(
            "complete_in_transaction_without_fence",
            "leases/complete_in_transaction",
            (("       and live.token = :token::text::bigint\n", ""),
             ("       and live.lease_id = :lease_id::text::uuid\n", "")),
        ),
        Mutant(
            "lease_keeps_token",
            "leases/lease_tasks",
            (("token = live.token + 1", "token = greatest(live.token, 1)"),),
        ),
        Mutant(
            "reap_early",
            "maintenance/reap_leases",
            (("where lease.expires_at <= wherry.now()",
              "where lease.expires_at <= wherry.now() + interval '300 milliseconds'"),
             ("and lease.expires_at <= wherry.now()",
              "and lease.expires_at <= wherry.now() + interval '300 milliseconds'")),
        ),
        Mutant(
            "reap_without_limit",
            "maintenance/reap_leases",
            (("                when live.attempts >= live.max_attempts then 'dead'\n", ""),),
        ),
        Mutant(
            "reap_drops_what_is_locked",
            "maintenance/reap_leases",
            (("              and live.id not in (select mine.id from mine)\n", "and false\n"),),
        ),
        Mutant(
            "fail_ignores_cancel",
            "leases/fail_tasks",
            (("case when live.cancel_requested_at is not null or asked.verdict = 'cancel'",
              "case when asked.verdict = 'cancel'"),),
        ),
        Mutant(
            "release_counts",
            "leases/give_back_tasks",
            (("else live.attempts - 1", "else live.attempts"),),
        ),
        Mutant(
            "dead_without_history",
            "leases/fail_tasks",
            (("      from mine\n        on conflict",
              "      from mine where mine.next_state <> 'dead'\n        on conflict"),),
        ),
        Mutant(
            "key_taken_over_unseen",
            "tasks/enqueue_tasks",
            ((_SEEN, "case when held.seen_stamp is null then"),),
        ),
        Mutant(
            "key_never_free",
            "tasks/resolve_keys",
            (("coalesce(finished.key_until, finished.keep_until) > wherry.now()", "true"),),
        ),
        Mutant(
            "cancel_ends_leased",
            "tasks/cancel_tasks",
            (("and mine.state <> 'leased'", ""), ("and mine.state = 'leased'", "and false")),
        ),
    )
}  # fmt: skip
# Not a statement's text, but a setting: nothing waits for the disk.
ASYNC_COMMIT = "commit_without_waiting"
NAMES = (*MUTANTS, ASYNC_COMMIT)


def apply() -> None:
    """Put in the mutant that the environment names, if it names one."""
    name = os.environ.get(VARIABLE)
    if not name:
        return
    if name == ASYNC_COMMIT:
        mock.patch.dict("wherry.transport.connect._OPTIONS", synchronous_commit="off").start()
        return
    mutant = MUTANTS[name]
    read: Callable[[str], str] = vars(render)["_read"]

    @lru_cache(maxsize=256)
    def changed(statement: str) -> str:
        text = read(statement)
        return mutate(text, mutant) if statement == mutant.statement else text

    mock.patch("wherry.transport.render._read", changed).start()


def mutate(text: str, mutant: Mutant) -> str:
    """Return a statement's text with the bug in it."""
    for good, bad in mutant.changes:
        if good not in text:
            raise AssertionError(f"mutant {mutant.name}: {mutant.statement} has no {good!r}")
        text = text.replace(good, bad)
    return text
