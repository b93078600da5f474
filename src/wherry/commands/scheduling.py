"""Settle the times of schedules that are due.

What is due is decided by the database's clock, what is done about it by `domain/cron.py`, and that
it is done once by a lock on the schedule and by a row for each time, in the transaction that stores
the task. Whoever dies before its end leaves nothing, and the next scheduler does it all again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from wherry.commands.base import Answer, Command, Statement
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks, new_token
from wherry.domain.cron import (
    LOOK_AT,
    MOST_MADE_UP,
    Overlap,
    Span,
    TickOutcome,
    decide,
    read_cron,
    without_overlaps,
)
from wherry.domain.schedule import Standing, planned
from wherry.errors import InvalidTask

# How long schedules are kept from others by one who is not heard of any more.
_HOLD: Final = "10s"
# When a schedule is looked at again whose times could not be told: by a machine that knows its time
# zone, say, or by a newer version.
_TROUBLE_SECONDS: Final = 60.0
# Of payloads in a step, which neither memory nor the hold has to bear by the hundred.
_MOST_BYTES: Final = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Settled:
    """What a step has done about the schedules that were due.

    `fired`: schedule, planned time and task; `passed`: what brought no task; `troubles`: schedule
    and why its times cannot be told. `more`: whether something is due still. `next_in`: in so many
    seconds the next schedule is due; None if there is none.
    """

    fired: tuple[tuple[str, datetime, int], ...] = ()
    passed: tuple[tuple[str, Span], ...] = ()
    troubles: tuple[tuple[str, str], ...] = ()
    more: bool = False
    next_in: float | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be done about one schedule."""

    standing: Standing
    next_at: datetime
    fire: Sequence[datetime] = ()
    passed: Sequence[Span] = ()
    # Nobody looks at it again until a worker declares it, or somebody resumes it.
    rests: bool = False
    trouble: str | None = None
    more: bool = False

    def settled(self, ids: list[int]) -> dict[str, Any]:
        """Return what is written down of it; *ids*: the tasks that it has brought."""
        standing = self.standing
        lasts = [*self.fire[-1:], *(span.last for span in self.passed)]
        n = Counter({span.outcome: span.n for span in self.passed})
        return {
            "name": standing.name,
            "next_at": self.next_at.isoformat(),
            "last_at": max(lasts).isoformat() if lasts else None,
            "due_in_seconds": None if self.trouble is None else _TROUBLE_SECONDS,
            "rests": self.rests,
            "running": standing.running_with(ids),
            "fired": len(ids),
            "missed_ticks": n[TickOutcome.MISSED],
            "overlapped": n[TickOutcome.OVERLAPPED],
            "paused_ticks": n[TickOutcome.PAUSED],
            "trouble": self.trouble,
        }


@dataclass(frozen=True, slots=True)
class SettleSchedules(Command[Settled]):
    """See to one batch of the schedules that are due; `name`: to that one, if it is due.

    Safe from any number of callers at once: a schedule that somebody else is at is left to them.
    """

    batch: int = 50
    name: str | None = None

    @property
    def atomic(self) -> bool:
        return True

    def answer(self) -> Answer[Settled]:
        due = yield Statement(
            "schedules/lock_due_schedules", {"batch": self.batch, "name": self.name}
        )
        settled = Settled()
        if due:
            # If nothing more is heard of us, others have their turn before long.
            yield Statement("schedules/limit_hold", {"hold": _HOLD})
            settled = yield from settle([name for (name,) in due])
        [[next_in]] = yield Statement("schedules/find_next_due", {})
        more = settled.more or len(due) == self.batch
        return Settled(settled.fired, settled.passed, settled.troubles, more, next_in)


@dataclass(frozen=True, slots=True)
class ListDue(Command[list[str]]):
    """Name schedules that are due, the one that is due for longest first; it locks none."""

    most: int = 1000

    def answer(self) -> Answer[list[str]]:
        rows = yield Statement("schedules/list_due_schedules", {"most": self.most})
        return [name for (name,) in rows]


def settle(names: Sequence[str]) -> Answer[Settled]:
    """See to schedules that are locked; those that are not due only have it written down."""
    rows = yield Statement("schedules/read_standing", {"names": list(names)})
    # Shared, so that many of which much was missed hold up the caller's loop no longer than one.
    look_at = max(2 * MOST_MADE_UP, LOOK_AT // max(1, len(rows)))
    standings = [Standing.of_row(row) for row in rows]
    made = (_plan(standing, look_at=look_at) for standing in standings)
    plans = {plan.standing.name: plan for plan in _within_bytes(made)}
    fires = [(name, at) for name, plan in plans.items() for at in plan.fire]
    ids: list[int] = []
    if fires:
        ids = yield from DrawTaskIds(len(fires)).answer()
    ticks = [_fired(name, at, id_) for (name, at), id_ in zip(fires, ids, strict=True)]
    ticks += [tick for plan in plans.values() for tick in _passed(plan)]
    fired: list[tuple[str, datetime, int]] = []
    if ticks:
        noted = yield Statement("schedules/note_ticks", {"ticks": json.dumps(ticks)})
        new = {(name, at) for name, at in noted}
        # What was seen to before, whatever the schedule's own row says, brings no second task.
        fired = [(*each, id_) for each, id_ in zip(fires, ids, strict=True) if each in new]
    if fired:
        specs = tuple(planned(plans[name].standing, at) for name, at, _ in fired)
        drawn = tuple(id_ for _, _, id_ in fired)
        yield from EnqueueTasks(specs, ids=drawn, token=new_token()).answer()
    settled = [
        plan.settled([id_ for of, _, id_ in fired if of == name]) for name, plan in plans.items()
    ]
    yield Statement("schedules/settle_schedules", {"settled": json.dumps(settled)})
    return Settled(
        tuple(fired),
        tuple((name, span) for name, plan in plans.items() for span in plan.passed),
        tuple((name, plan.trouble) for name, plan in plans.items() if plan.trouble is not None),
        any(plan.more for plan in plans.values()),
    )


def _plan(standing: Standing, *, look_at: int) -> _Plan:
    if not standing.is_wanted:
        return _Plan(standing, standing.next_at, rests=True)
    try:
        # Written by another machine: this one may know less of time zones.
        cron = read_cron(standing.cron.expression, standing.cron.tz)
        decision = decide(
            cron,
            next_at=standing.next_at,
            now=standing.now,
            missed=standing.missed,
            look_at=look_at,
            # While it is paused it is looked at only before another definition takes its place.
            resumed_at=standing.now if standing.is_paused else standing.resumed_at,
        )
    except InvalidTask as error:
        return _Plan(standing, standing.next_at, trouble=str(error))
    fire: Sequence[datetime] = decision.fire
    passed = decision.passed
    if standing.overlap is Overlap.SKIP:
        fire, overlapped = without_overlaps(fire, running=bool(standing.running))
        passed = (*passed, *overlapped)
    return _Plan(
        standing, decision.next_at, fire, passed, rests=standing.is_paused, more=decision.more
    )


def _within_bytes(plans: Iterable[_Plan]) -> Iterator[_Plan]:
    """Put off what would make a step too large; one task of them all it may store at any size."""
    room = _MOST_BYTES
    for plan in plans:
        size = max(1, len(plan.standing.task.payload))
        n = min(len(plan.fire), max(room // size, int(room == _MOST_BYTES)))
        room -= n * size
        if n == len(plan.fire):
            yield plan
        elif n:
            yield replace(plan, fire=plan.fire[:n], next_at=plan.fire[n], more=True)
        else:
            yield _Plan(plan.standing, plan.standing.next_at, more=True)


def _fired(name: str, at: datetime, task_id: int) -> dict[str, Any]:
    told = at.isoformat()
    return {
        "schedule": name,
        "planned_at": told,
        "until_at": told,
        "n": 1,
        "outcome": TickOutcome.FIRED,
        "task_id": task_id,
    }


def _passed(plan: _Plan) -> Iterator[dict[str, Any]]:
    last = plan.standing.last_passed
    for span in plan.passed:
        # Only the first one follows what was there without a gap.
        extends = last[0].isoformat() if last is not None and last[1] is span.outcome else None
        last = None
        yield {
            "schedule": plan.standing.name,
            "planned_at": span.first.isoformat(),
            "until_at": span.last.isoformat(),
            "n": span.n,
            "outcome": span.outcome,
            "reason": _reason(plan, span),
            "extends": extends,
        }


def _reason(plan: _Plan, span: Span) -> str | None:
    if span.outcome is not TickOutcome.OVERLAPPED:
        return None
    running = plan.standing.running
    return f"task {running[-1]} had not ended" if running else "one of them is enough"
