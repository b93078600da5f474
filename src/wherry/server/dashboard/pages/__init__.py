"""The pages of the dashboard and what can be done there, and the places of its navigation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wherry.server.dashboard.pages import (
    audit,
    bulk,
    database,
    dead,
    overview,
    queue_limits,
    queues,
    schedules,
    task,
    task_actions,
    task_copying,
    tasks,
    type_pauses,
    workers,
)


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the navigation; `key` goes there after a `g`. The icon is of icons.html."""

    path: str
    label: str
    icon: str
    key: str


PLACES: Final = (
    Place("", "Overview", "overview", "o"),
    Place("queues", "Queues", "queues", "q"),
    Place("tasks", "Tasks", "tasks", "t"),
    Place("dead", "Dead", "dead", "d"),
    Place("workers", "Workers", "workers", "w"),
    Place("schedules", "Schedules", "schedules", "s"),
    Place("audit", "Audit", "audit", "a"),
    Place("database", "Database", "database", "b"),
)
PAGES: Final = (
    *overview.PAGES,
    *queues.PAGES,
    *workers.PAGES,
    *tasks.PAGES,
    *task.PAGES,
    *bulk.PAGES,
    *dead.PAGES,
    *schedules.PAGES,
    *audit.PAGES,
    *database.PAGES,
)
ACTIONS: Final = (
    *queues.ACTIONS,
    *queue_limits.ACTIONS,
    *type_pauses.ACTIONS,
    *workers.ACTIONS,
    *schedules.ACTIONS,
    *task_actions.ACTIONS,
    *task_copying.ACTIONS,
    *bulk.ACTIONS,
)
