"""Look at schedules, run, pause, resume and delete them.

A pause stops new tasks and nothing else: those that are there run, and running it by hand works.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from wherry.commands.base import Answer, Command, Statement
from wherry.commands.tasks import EnqueueTasks
from wherry.domain.cron import TickOutcome
from wherry.domain.schedule import ScheduleSeen, Standing, Tick, planned
from wherry.domain.task import Enqueued
from wherry.errors import NotFound


@dataclass(frozen=True, slots=True)
class ListSchedules(Command[list[ScheduleSeen]]):
    """List all schedules by name, or the one of that name."""

    name: str | None = None

    def answer(self) -> Answer[list[ScheduleSeen]]:
        rows = yield Statement("schedules/list_schedules", {"name": self.name})
        return [ScheduleSeen.of_row(row) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTicks(Command[list[Tick]]):
    """List what became of a schedule's times, newest first; `before`: those planned earlier.

    Raises NotFound only where there is nothing to list.
    """

    name: str
    limit: int = 100
    before: datetime | None = None

    def answer(self) -> Answer[list[Tick]]:
        rows = yield Statement(
            "schedules/list_ticks",
            {"name": self.name, "limit_rows": self.limit, "before": self.before},
        )
        if not rows:
            known = yield from ListSchedules(self.name).answer()
            require(bool(known), self.name)
        return [Tick.of_row(row) for row in rows]


@dataclass(frozen=True, slots=True)
class TicksCounted:
    """How many ticks of each schedule had which outcome; and for how long the first is due now."""

    counts: dict[str, dict[str, int]]
    late_seconds: float


@dataclass(frozen=True, slots=True)
class CountTicks(Command[TicksCounted]):
    """Read how many times of each schedule brought a task, were missed, and so on, ever."""

    def answer(self) -> Answer[TicksCounted]:
        rows = yield Statement("schedules/count_ticks", {})
        outcomes = (
            TickOutcome.FIRED,
            TickOutcome.MISSED,
            TickOutcome.OVERLAPPED,
            TickOutcome.PAUSED,
            TickOutcome.BY_HAND,
        )
        counts = {
            name: {str(of): n for of, n in zip(outcomes, ns, strict=True)} for name, *ns in rows
        }
        [[next_in]] = yield Statement("schedules/find_next_due", {})
        return TicksCounted(counts, 0.0 if next_in is None else max(0.0, -next_in))


@dataclass(frozen=True, slots=True)
class PauseSchedule(Command[bool]):
    """Let a schedule bring no task until it is resumed; False if it was paused, which stays so.

    A time that is being settled at this moment is settled. Raises NotFound.
    """

    name: str
    actor: str | None = None
    reason: str | None = None

    def answer(self) -> Answer[bool]:
        [[known, paused]] = yield Statement(
            "schedules/pause_schedule",
            {"name": self.name, "actor": self.actor, "reason": self.reason},
        )
        require(known, self.name)
        return bool(paused)


@dataclass(frozen=True, slots=True)
class ResumeSchedule(Command[bool]):
    """Let a schedule bring tasks again; False if it was not paused. Raises NotFound.

    The times of the pause are passed over. `reason` is for the audit only.
    """

    name: str
    reason: str | None = None

    def answer(self) -> Answer[bool]:
        [[known, resumed]] = yield Statement("schedules/resume_schedule", {"name": self.name})
        require(known, self.name)
        return bool(resumed)


@dataclass(frozen=True, slots=True)
class DeleteSchedule(Command[bool]):
    """Delete a schedule and what is known of its times; its tasks stay. Raises NotFound.

    False, and nothing is deleted, if a live worker declares it: it would be back in a minute.
    """

    name: str
    reason: str | None = None

    @property
    def atomic(self) -> bool:
        return True

    def answer(self) -> Answer[bool]:
        # First, so that what a scheduler is noting at this moment is seen, and goes as well.
        yield Statement("schedules/lock_schedules", {"names": [self.name]})
        [[known, gone]] = yield Statement("schedules/delete_schedule", {"name": self.name})
        require(known, self.name)
        return bool(gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSchedule(Command[Enqueued]):
    """Store one task of a schedule now, whether it is due, paused, or its last task still runs.

    It is no tick: the next time stays what it is. Raises NotFound.
    """

    name: str
    reason: str | None = None
    # As of EnqueueTasks; there is one id.
    ids: tuple[int, ...] | None = None
    token: int = 0
    resent: bool = False

    @property
    def atomic(self) -> bool:
        return True

    def again(self) -> RunSchedule:
        return replace(self, resent=True)

    def answer(self) -> Answer[Enqueued]:
        yield Statement("schedules/lock_schedules", {"names": [self.name]})
        rows = yield Statement("schedules/read_standing", {"names": [self.name]})
        require(bool(rows), self.name)
        standing = Standing.of_row(rows[0])
        [stored] = yield from EnqueueTasks(
            (planned(standing, None),), ids=self.ids, token=self.token, resent=self.resent
        ).answer()
        yield Statement(
            "schedules/note_run",
            {
                "name": self.name,
                "task_id": stored.id,
                "reason": self.reason,
                "running": standing.running_with([stored.id]),
            },
        )
        return stored


@dataclass(frozen=True, slots=True)
class PruneTicks(Command[bool]):
    """Forget one batch of ticks that are older than any finished task; True while there are more.

    The last time that was settled is kept with the schedule: nothing is brought twice for want of
    them.
    """

    batch: int = 1000

    def answer(self) -> Answer[bool]:
        rows = yield Statement("maintenance/prune_ticks", {"batch": self.batch})
        return len(rows) == self.batch


def require(known: bool, name: str) -> None:
    """Raise NotFound unless there is a schedule of this name."""
    if not known:
        raise NotFound(None, named=f"a schedule called {name!r}")
