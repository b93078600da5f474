"""What the database knows of a worker, and what a worker can be told to do.

A directive is asked for by somebody else, and heard at the worker's next beat: nobody waits for it
to be obeyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class Directive(StrEnum):
    """What a worker is asked to do: DRAIN leases nothing until told otherwise, STOP ends it."""

    NONE = "none"
    DRAIN = "drain"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """A worker as it was last heard of; the fields are those of a row, in its order.

    `queues` None: it serves every queue. `types` None: it knows any type. `alive`: it beat not too
    long ago. One that starts again under its old name is another `instance`.
    """

    instance: str
    name: str
    host: str
    pid: int | None
    queues: tuple[str, ...] | None
    types: tuple[str, ...] | None
    started_at: datetime
    beat_at: datetime
    alive: bool
    directive: Directive
    directed_by: str | None = None
    directive_reason: str | None = None
    # None: not known, as of one that works through a server.
    slots: int | None = None
    version: str | None = None
    memory_bytes: int | None = None
    # Since when it hears no notification that it should hear, and only polls; None: it hears, need
    # not, or does not say. Told at each beat.
    deaf_since: datetime | None = None

    @property
    def deaf_seconds(self) -> float | None:
        """For how long it had been deaf when it last beat."""
        return None if self.deaf_since is None else (self.beat_at - self.deaf_since).total_seconds()

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> WorkerSeen:
        """Return the worker of a row."""
        columns: list[Any] = [*row]
        for n in (4, 5):
            columns[n] = None if row[n] is None else tuple(row[n])
        columns[9] = Directive(row[9])
        return cls(*columns)


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A task in the hands of a worker of that name, and for how long it has been."""

    worker: str
    id: int
    queue: str
    type: str
    attempts: int
    seconds: float
