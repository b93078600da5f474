"""The schedules that one App's code declares, by name.

A worker writes them to the database; nothing here does, so importing a module with schedules needs
no database, and a program that only enqueues declares nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wherry.domain.schedule import Schedule
from wherry.errors import HandlerError
from wherry.tasks.registry import described, place
from wherry.tasks.task import TaskType


class Timetable:
    """Schedules by name. Filled while modules are imported, read when a worker starts."""

    def __init__(self) -> None:
        self._schedules: dict[str, tuple[Schedule, TaskType[Any, Any]]] = {}

    def add(self, schedule: Schedule, task_type: TaskType[Any, Any]) -> None:
        """Add a schedule. Raises HandlerError for a second one under the same name.

        The same one again is no duplicate if its function is another object of the same place: that
        is a module that was imported twice, as `__main__` and by its own name.
        """
        known = self._schedules.get(schedule.name)
        if known is not None:
            ours, theirs = task_type.function, known[1].function
            again = ours is not theirs and place(ours) == place(theirs)
            if not again or schedule.definition != known[0].definition:
                raise HandlerError(
                    f"schedule {schedule.name!r} is declared twice, of {described(theirs)} and of"
                    f" {described(ours)}: give one of them another name with"
                    " @app.schedule(..., name=...)"
                )
        self._schedules[schedule.name] = schedule, task_type

    def __iter__(self) -> Iterator[Schedule]:
        return (schedule for schedule, _ in self._schedules.values())

    def __len__(self) -> int:
        return len(self._schedules)


def scheduled(
    task_type: TaskType[Any, Any],
    cron: str,
    *,
    tz: str,
    name: str | None,
    payload: Mapping[str, Any] | None,
    missed: str,
    overlap: str,
    options: Mapping[str, Any],
) -> Schedule:
    """Return a checked schedule of *task_type*. Raises HandlerError or InvalidTask."""
    if not isinstance(task_type, TaskType):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise HandlerError(
            f"{task_type!r} is no task type: put @app.schedule(...) above @app.task, not below it"
        )
    return Schedule.checked(
        task_type.name if name is None else name,
        cron,
        task_type.spec({} if payload is None else payload, options),
        tz=tz,
        missed=missed,
        overlap=overlap,
    )
