"""Read the flow of tasks and how many are in which state; `domain/flow.py` says how to use it.

Nothing here counts tasks but the leased ones: all else is read from sums, which `tally.py` makes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from wherry.commands.base import Answer, Command, Row, Statement
from wherry.domain.flow import (
    Flow,
    Grid,
    Point,
    StateCount,
    States,
    Sums,
    Total,
    Totals,
    grid,
)

# So many leased tasks are looked at one by one, and so many queues for what is due longest.
_LEASED_MOST: Final = 10_000
_QUEUES_MOST: Final = 500
_FINAL: Final = ("succeeded", "failed", "dead", "canceled")


@dataclass(frozen=True, slots=True)
class ReadFlow(Command[Flow]):
    """Tell what happened in the last `seconds`, in about `points` points, of some queues or a type.

    Raises ValueError if that is more than is kept.
    """

    seconds: int
    points: int
    queues: tuple[str, ...] | None = None
    type: str | None = None

    @property
    def grid(self) -> Grid:
        """How the points lie."""
        return grid(seconds=self.seconds, points=self.points)

    def answer(self) -> Answer[Flow]:
        lie = self.grid
        [[last_at, tallied_seconds, summed_until]] = yield Statement(
            "flow/read_age", {"width_seconds": lie.width_seconds}
        )
        width = timedelta(seconds=lie.width_seconds)
        moments = [last_at - width * back for back in reversed(range(lie.points))]
        rows = yield Statement(
            "flow/read_flow",
            {
                "step": lie.step,
                "width_seconds": lie.width_seconds,
                "since": moments[0],
                "queues": None if self.queues is None else list(self.queues),
                "type": self.type,
            },
        )
        found: defaultdict[datetime, list[Row]] = defaultdict(list)
        for at, *summed in rows:
            found[at].append(tuple(summed))
        points: list[Point] = []
        for at in moments:
            sums = Sums.of(found[at])
            points.append(Point(at, sums.counts, sums.wait, sums.run))
        return Flow(tuple(points), lie.width_seconds, tallied_seconds, summed_until)


@dataclass(frozen=True, slots=True)
class ReadTotals(Command[Totals]):
    """Tell all that was ever counted, by queue and type."""

    queues: tuple[str, ...] | None = None

    def answer(self) -> Answer[Totals]:
        [[_, tallied_seconds, _]] = yield Statement("flow/read_age", {"width_seconds": 60})
        queues = None if self.queues is None else list(self.queues)
        rows = yield Statement("flow/read_totals", {"queues": queues})
        totals: list[Total] = []
        for (queue, type_), group in groupby(rows, key=lambda row: row[:2]):
            sums = Sums.of([row[2:] for row in group])
            totals.append(Total(queue, type_, sums.counts, sums.wait, sums.run))
        return Totals(tuple(totals), tallied_seconds)


@dataclass(frozen=True, slots=True)
class CountStates(Command[States]):
    """Tell how many tasks are in which state, by queue and type."""

    queues: tuple[str, ...] | None = None

    def answer(self) -> Answer[States]:
        [[_, tallied_seconds, _]] = yield Statement("flow/read_age", {"width_seconds": 60})
        queues = None if self.queues is None else list(self.queues)
        rows = yield Statement("flow/count_states", {"queues": queues, "most": _LEASED_MOST})
        counts = tuple(
            StateCount(
                queue=queue,
                type=type_,
                queued=max(0, live - leased),
                delayed=max(0, delayed),
                parked=max(0, parked),
                leased=leased,
                **{state: max(0, n) for state, n in zip(_FINAL, final, strict=True)},
            )
            for queue, type_, live, delayed, parked, leased, *final in rows
        )
        waiting = dict.fromkeys(count.queue for count in counts if count.ready)
        due = yield Statement("flow/list_oldest_due", {"queues": list(waiting)[:_QUEUES_MOST]})
        leased_at_least = sum(count.leased for count in counts) >= _LEASED_MOST
        return States(counts, dict(due), leased_at_least, tallied_seconds)
