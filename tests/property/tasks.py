"""A task of the model: how it was enqueued, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import wherry
from wherry import State

# A lease by its task and token.
Holder = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Asked:
    """A task as it is enqueued; lengths of time in seconds."""

    queue: str
    type: str
    n: int
    priority: int
    delay: float
    max_attempts: int
    retry_after: float
    key: str | None = None
    key_ttl: float | None = None
    ttl: float | None = None


@dataclass(slots=True)
class Task:
    """A task; `arrival` is its place among the ready ones, None while it waits for its time."""

    id: int
    asked: Asked
    key: str | None
    created_at: datetime
    run_after: datetime
    arrival: int | None
    discard_at: datetime | None
    state: State = State.QUEUED
    attempts: int = 0
    token: int = 0
    first_token: int = 0
    snoozes: int = 0
    releases: int = 0
    worker: str | None = None
    lease_ends_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    finished_at: datetime | None = None
    keep_until: datetime | None = None
    key_until: datetime | None = None
    result: Any = None
    history: list[tuple[int, int, str]] = field(default_factory=list)

    @property
    def is_final(self) -> bool:
        return self.state.is_final

    @property
    def rank(self) -> tuple[int, int]:
        """Whoever has less is leased first."""
        assert self.arrival is not None
        return (-self.asked.priority, self.arrival)


def shown(task: Task) -> tuple[Any, ...]:
    """Return what a listing has to show of a task."""
    return (
        task.id, task.asked.queue, task.asked.type, {"n": task.asked.n}, str(task.state),
        task.asked.priority, task.attempts, task.asked.max_attempts, task.run_after, task.worker,
        task.lease_ends_at, task.token, task.key, task.result, task.created_at, task.finished_at,
        task.cancel_requested_at,
    )  # fmt: skip


def options(task: Asked) -> Any:
    """Return the options of an enqueue; those that were not asked for are left out."""
    chosen = {
        "queue": task.queue,
        "priority": task.priority,
        "delay": task.delay or None,
        "max_attempts": task.max_attempts,
        "retry": wherry.Fixed(task.retry_after),
        "key": task.key,
        "key_ttl": None if task.key is None else task.key_ttl,
        "ttl": task.ttl,
    }
    return {name: value for name, value in chosen.items() if value is not None}
