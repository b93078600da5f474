"""The check of schedules: whether somebody settles them, and whether their times can be told."""

from __future__ import annotations

from shlex import quote
from typing import Final

from wherry.commands.base import Rows
from wherry.doctor.check import Check, asked
from wherry.doctor.finding import Judgment, fine, problem, warning
from wherry.doctor.wording import names
from wherry.domain.counting import count
from wherry.domain.durations import span

LATE_SECONDS: Final = 60.0


def judge_schedules(rows: Rows) -> Judgment:
    """Whether schedules are late, in trouble, far ahead of the clock, or declared by nobody."""
    if not rows:
        return fine("there are none")
    late = [row for row in rows if (row[1] or 0) >= LATE_SECONDS]
    if late:
        name, late_seconds, _, _, _ = max(late, key=lambda row: row[1])
        return problem(
            f"schedule {name!r} has been due for {span(late_seconds)}, and nobody settles it",
            "start a worker or a server: each settles schedules; if one runs, its log says what is"
            " in the way",
        )
    troubled = [(row[0], row[2]) for row in rows if row[2] is not None]
    if troubled:
        name, trouble = troubled[0]
        others = f"; and {count(len(troubled) - 1, 'other')}" if len(troubled) > 1 else ""
        return problem(
            f"the times of schedule {name!r} cannot be told: {trouble}{others}",
            "update the package tzdata, or the system's table of time zones, where workers run",
        )
    undeclared = [row[0] for row in rows if row[3]]
    if undeclared:
        return warning(
            f"no live worker declares {names(undeclared)}: nothing is enqueued for them",
            "start a worker with their code; if they are gone from it: wherry cron delete --"
            f" {quote(undeclared[0])}",
        )
    paused = [row[0] for row in rows if row[4]]
    return fine(f"paused: {names(paused)}" if paused else f"{count(len(rows), 'schedule')}")


CHECKS: Final = (Check("schedules", asked("list_schedule_states", judge_schedules)),)
