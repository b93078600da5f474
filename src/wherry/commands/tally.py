"""Sum the flow up, and see that the sums agree with the tasks.

One process of all does it, for all. The flow is summed up by whose transaction has the lock of the
chore's row: if it dies the lock is gone and the chore is due still. A recount, which reads every
task, is put off before it begins: one that fails, or takes too long, is tried in an hour again. Who
carries it does so by a connection of its own, since it takes a second for each million of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Final

from wherry.commands.base import Answer, Command, Statement
from wherry.domain.flow import COUNTED, HOURS_FOR_SECONDS, MINUTES_FOR_SECONDS, MOVED, PAIRS_MOST

_KINDS: Final = [*COUNTED, *MOVED, "wait", "run"]
_ROLL_SECONDS: Final = 2.0
_IDLE_SECONDS: Final = 4.0
_FORGET_ROUNDS: Final = 25
_RECOUNT_SECONDS: Final = 300.0
_RECOUNT_AGAIN_SECONDS: Final = 3600.0
# Longer than any sum of hours is kept, and than it takes a new process to be everywhere.
_PAIRS_FOR_SECONDS: Final = HOURS_FOR_SECONDS + 3 * 86_400.0
_PAIRS_BATCH: Final = 100
# What is dead in the flow, and may not be removed while somebody holds an old snapshot, has to be
# passed over each time: so the rest is as many times as long as the work.
_ROLL_SHARE: Final = 100
_RECOUNT_SHARE: Final = 500


@dataclass(frozen=True, slots=True)
class RollFlow(Command[bool]):
    """Sum up one batch of the flow, if that is due; True while there is more."""

    batch: int = 20_000

    @property
    def atomic(self) -> bool:
        # The lock of the chore is kept until all is done; each statement sees what came before.
        return True

    def answer(self) -> Answer[bool]:
        began = monotonic()
        idle = yield Statement(
            "flow/rest_chore", {"idle_seconds": _IDLE_SECONDS, "share": float(_ROLL_SHARE)}
        )
        if idle:
            return False
        due = yield Statement("flow/claim_chore", {"name": "roll"})
        if not due:
            return False
        [[fold_until]] = due
        [[taken]] = yield Statement(
            "flow/roll_flow", {"batch": self.batch, "pairs": PAIRS_MOST, "kinds": _KINDS}
        )
        if fold_until is not None:
            yield Statement("flow/fold_minutes", {"fold_until": fold_until})
            yield from self._forget()
        more = bool(taken >= self.batch)
        pause = _ROLL_SECONDS if taken else _IDLE_SECONDS
        rest = 0.0 if more else max(pause, (monotonic() - began) * _ROLL_SHARE)
        yield _put_off("roll", rest, fold_until)
        return more

    def _forget(self) -> Answer[None]:
        # A thousand pairs make more sums in the minutes between two folds than a batch has.
        for _ in range(_FORGET_ROUNDS):
            [[gone]] = yield Statement(
                "flow/forget_tallies",
                {
                    "minutes_seconds": MINUTES_FOR_SECONDS + 3600.0,
                    "hours_seconds": HOURS_FOR_SECONDS + 3600.0 * 24,
                    "batch": self.batch,
                },
            )
            if gone < self.batch:
                break
        yield Statement(
            "flow/forget_pairs", {"unused_seconds": _PAIRS_FOR_SECONDS, "batch": _PAIRS_BATCH}
        )


@dataclass(frozen=True, slots=True)
class RecountTasks(Command[int]):
    """Count all tasks, however many, if that is due; answers how many sums were wrong.

    Code that does not count yet, which may run beside ours for a while, leaves the sums of states
    wrong, and so does a hand in the database. What was counted as it happened stays as it is.
    """

    # Not atomic: that it was tried has to last, whatever becomes of it.

    def answer(self) -> Answer[int]:
        began = monotonic()
        due = yield Statement(
            "flow/take_chore", {"name": "recount", "rest_seconds": _RECOUNT_AGAIN_SECONDS}
        )
        if not due:
            return 0
        [[wrong]] = yield Statement("flow/recount_tasks", {})
        rest = max(_RECOUNT_SECONDS, (monotonic() - began) * _RECOUNT_SHARE)
        yield _put_off("recount", rest)
        return int(wrong)


def _put_off(name: str, seconds: float, fold_until: datetime | None = None) -> Statement:
    return Statement(
        "flow/put_off_chore", {"name": name, "rest_seconds": seconds, "fold_until": fold_until}
    )
