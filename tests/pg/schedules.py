"""What the tests of schedules share: workers that are alive, and schedules of the type `t`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.pg.support import Session, spec
from wherry.commands.declaring import DeclareSchedules, Stood
from wherry.commands.schedules import ListSchedules, ListTicks
from wherry.commands.scheduling import Settled, SettleSchedules
from wherry.commands.workers import BeatWorker
from wherry.domain.cron import Missed, Overlap, read_cron
from wherry.domain.schedule import Schedule, ScheduleSeen, Tick

LONG = 1e9
# Between two minutes, as most moments are.
NOON = datetime(2026, 11, 30, 12, 0, 20, tzinfo=UTC)


class StillClock:
    """A database's time that stands still until it is moved, also back, as clocks do."""

    def __init__(self, session: Session, at: datetime) -> None:
        self._session = session
        self.at = at
        self.step(timedelta())

    def step(self, by: timedelta) -> datetime:
        """Move it by so much, and return what time it is then."""
        self.at += by
        self._session.rows(
            "create or replace function wherry.now() returns timestamptz language sql stable"
            f" parallel safe as $$ select timestamptz '{self.at.isoformat()}' $$"
        )
        return self.at

    def advance(self, **by: float) -> datetime:
        """Move it forward."""
        return self.step(timedelta(**by))


def beat(session: Session, n: int = 1, *, seconds: float = LONG) -> str:
    """Let the *n*th worker be alive for so long; returns its instance."""
    instance = str(UUID(int=n))
    session.call(
        BeatWorker(
            instance=instance, name=f"w{n}", host="h", pid=n, queues=None, types=("t",),
            alive_seconds=seconds,
        )
    )  # fmt: skip
    return instance


def schedule(name: str = "s", cron: str = "* * * * *", **said: Any) -> Schedule:
    """Return a schedule; what is not of itself is of its tasks."""
    tz = said.pop("tz", "UTC")
    missed = Missed(said.pop("missed", "last"))
    overlap = Overlap(said.pop("overlap", "allow"))
    return Schedule(name, read_cron(cron, tz), spec(**said), missed, overlap)


def declare(session: Session, *schedules: Schedule, n: int = 1) -> Stood:
    """Let the *n*th worker declare schedules."""
    return session.call(DeclareSchedules(schedules, beat(session, n)))


def settle(session: Session) -> list[Settled]:
    """Settle what is due until nothing is."""
    steps = [session.call(SettleSchedules())]
    while steps[-1].more:
        steps.append(session.call(SettleSchedules()))
    return steps


def seen(session: Session, name: str = "s") -> ScheduleSeen:
    """Return how a schedule stands."""
    [found] = session.call(ListSchedules(name))
    return found


def ticks(session: Session, name: str = "s") -> list[Tick]:
    """Return the newest of a schedule's times, the oldest of them first."""
    return session.call(ListTicks(name=name, limit=1000))[::-1]


def outcomes(session: Session, name: str = "s") -> list[tuple[str, int]]:
    """Return what became of a schedule's times, in order."""
    return [(str(tick.outcome), tick.n) for tick in ticks(session, name)]


def planned_of(session: Session, name: str = "s") -> list[datetime]:
    """Return the times for which tasks of a schedule were stored, by their headers."""
    rows = session.rows(
        "select (headers ->> 'wherry-planned-at')::timestamptz from wherry.tasks"
        " where headers ->> 'wherry-schedule' = %s order by 1",
        name,
    )
    return [at for (at,) in rows]


def minutes(n: int) -> timedelta:
    return timedelta(minutes=n)
