"""Read what came and ended of each queue, or of each type of some queues, for small charts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from wherry.commands.base import Answer, Command, Row, Statement
from wherry.domain.flow import MINUTES_FOR_SECONDS, Line, LinePoint, Lines, Sums, grid

_PAIRS_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class ReadLines(Command[Lines]):
    """Tell what came and ended in the last `seconds`, by queue, or by type.

    Of `queues` only, if they are named. Raises ValueError for more than two days.
    """

    seconds: int
    points: int
    by_type: bool = False
    queues: tuple[str, ...] | None = None

    def answer(self) -> Answer[Lines]:
        if self.seconds > MINUTES_FOR_SECONDS:
            raise ValueError(f"seconds: at most {MINUTES_FOR_SECONDS} (two days)")
        lie = grid(seconds=self.seconds, points=self.points)
        [[last_at, _, summed_until]] = yield Statement(
            "flow/read_age", {"width_seconds": lie.width_seconds}
        )
        width = timedelta(seconds=lie.width_seconds)
        moments = [last_at - width * back for back in reversed(range(lie.points))]
        asked = {
            "since": moments[0],
            "queues": None if self.queues is None else list(self.queues),
            "by_type": self.by_type,
            "most": _PAIRS_MOST,
        }
        counted = yield Statement("flow/read_lines", {"width_seconds": lie.width_seconds, **asked})
        spread = yield Statement("flow/read_spreads", asked)
        counts: defaultdict[str, dict[datetime, Row]] = defaultdict(dict)
        for name, at, *numbers in counted:
            counts[name][at] = tuple(numbers)
        spreads: defaultdict[str, list[Row]] = defaultdict(list)
        for name, *row in spread:
            spreads[name].append(tuple(row))
        lines: dict[str, Line] = {}
        for name in counts.keys() | spreads.keys():
            sums = Sums.of(spreads[name])
            points = tuple(LinePoint(at, *counts[name].get(at, (0, 0, 0))) for at in moments)
            lines[name] = Line(points, sums.wait, sums.run)
        return Lines(lines, lie.width_seconds, summed_until)
