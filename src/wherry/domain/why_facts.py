"""What one statement has read of a task, its queue and its workers, to tell why it is where it is.

The order of the columns of `sql/tasks/why_task.sql` is that of the fields of Facts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wherry.domain.limits import QueueLimits


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """The newest attempt that did not succeed."""

    attempt: int
    outcome: str
    error: str | None
    worker: str | None
    retry_at: datetime | None

    @classmethod
    def of_text(cls, text: str) -> LastAttempt:
        """Return the attempt of a JSON object."""
        fields = json.loads(text)
        retry_at = fields.pop("retry_at")
        return cls(
            **fields, retry_at=None if retry_at is None else datetime.fromisoformat(retry_at)
        )


@dataclass(frozen=True, slots=True)
class Crew:
    """How many workers are alive, serve the queue, fit (know the type, too), and of those drain."""

    alive: int
    serve: int
    fit: int
    drain: int


@dataclass(frozen=True, slots=True)
class TypePause:
    """That a task's type is paused: in all queues (`queue` is empty), or in its own."""

    paused_at: datetime
    actor: str | None
    reason: str | None
    queue: str

    @classmethod
    def all_of_text(cls, text: str) -> tuple[TypePause, ...]:
        """Return the pauses of a JSON array."""
        return tuple(
            cls(**fields | {"paused_at": datetime.fromisoformat(fields["paused_at"])})
            for fields in json.loads(text)
        )


@dataclass(frozen=True, slots=True)
class Room:
    """The limits of a task's queue, how many run, who holds most of them, when the next may start.

    `starts_in` is in seconds, and none if its rate is not limited.
    """

    limits: QueueLimits
    running: int | None
    holders: tuple[str, ...]
    starts_in: float | None

    @classmethod
    def of_text(cls, text: str) -> Room:
        """Return the room of a JSON object."""
        fields = json.loads(text)
        running, holders = fields.pop("running"), tuple(fields.pop("holders"))
        starts_in = fields.pop("starts_in")
        return cls(QueueLimits(**fields), running, holders, starts_in)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a task, its queue and its workers; the fields are those of a row, in order.

    `state` is that of the table: a queued task is ready, delayed or parked. `holder` has its lease,
    or ended it.
    """

    id: int
    queue: str
    type: str
    state: str
    priority: int
    attempts: int
    max_attempts: int
    snoozes: int
    run_after: datetime
    started_at: datetime | None
    finished_at: datetime | None
    discard_at: datetime | None
    cancel_requested_at: datetime | None
    reason: str | None
    error: str | None
    holder: str | None
    lease_expires_at: datetime | None
    now: datetime
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    type_pauses: tuple[TypePause, ...]
    room: Room | None
    last: LastAttempt | None
    crew: Crew
    ahead: int

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Facts:
        """Return the facts of a row."""
        columns: list[Any] = [*row]
        columns[-5] = () if row[-5] is None else TypePause.all_of_text(row[-5])
        columns[-4] = None if row[-4] is None else Room.of_text(row[-4])
        columns[-3] = None if row[-3] is None else LastAttempt.of_text(row[-3])
        columns[-2] = Crew(**json.loads(row[-2]))
        return cls(*columns)

    def after(self, instant: datetime) -> float:
        """Return how many seconds ago *instant* was; negative while it is to come."""
        return (self.now - instant).total_seconds()
