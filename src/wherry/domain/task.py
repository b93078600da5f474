"""What the database knows of a task, as plain values.

The payload is kept as the text that was stored and decoded at each look, so that a handler that
changes its copy changes nothing else, and so that one unreadable payload does not hide the rest of
a listing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from wherry.domain.state import State
from wherry.domain.stored import decode, decode_result


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The answer to an enqueue.

    `created` is False when the key already named a task: then `id` is that task's, and
    `payload_matches` tells whether it has the same type and payload. Without a key it is None.
    """

    id: int
    created: bool
    payload_matches: bool | None = None
    # The App that enqueued it; it is no part of the answer's value.
    _app: Any = field(default=None, repr=False, compare=False)

    def result(self, *, timeout: timedelta | float) -> Any:
        """Wait for the task's stored result, blocking; see App.result."""
        return self._app.result(self.id, timeout=timeout)

    async def aresult(self, *, timeout: timedelta | float) -> Any:
        """Wait for the task's stored result; see App.aresult."""
        return await self._app.aresult(self.id, timeout=timeout)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt that did not succeed: `outcome` is failed, lost or canceled."""

    token: int
    attempt: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    ended_at: datetime
    retry_at: datetime | None
    error_type: str | None
    message: str | None
    traceback: str | None


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it stood when it was read."""

    id: int
    queue: str
    type: str
    payload_text: str
    state: State
    priority: int
    attempts: int
    max_attempts: int
    token: int
    run_after: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    lease_expires_at: datetime | None
    key: str | None
    tags: tuple[str, ...]
    headers: dict[str, str]
    retry: dict[str, Any] | None
    timeout_seconds: float | None
    result_text: str | None
    reason: str | None
    error: str | None
    cancel_requested_at: datetime | None
    history: tuple[Attempt, ...] = field(default=())

    @property
    def payload(self) -> dict[str, Any]:
        """A fresh copy at each look. Raises DecodeError if the stored text is not readable."""
        return decode(self.payload_text)

    @property
    def result(self) -> Any:
        """The stored result, or None; a fresh copy at each look."""
        return None if self.result_text is None else decode_result(self.result_text)


@dataclass(frozen=True, slots=True)
class Page:
    """Some tasks, newest first; pass `after` to get the next ones (None: there are no more)."""

    tasks: tuple[Task, ...]
    after: int | None


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many live tasks a queue holds, by what they wait for, and the oldest due one's age."""

    queue: str
    ready: int
    delayed: int
    parked: int
    leased: int
    oldest_due_seconds: float | None


class Canceled(StrEnum):
    """The answer to a cancel."""

    CANCELED = "canceled"
    REQUESTED = "requested"
    FINAL = "final"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Requeued:
    """The answer to a requeue: `queued`, `key_taken` (by `taken_by`), `not_final` or `unknown`."""

    id: int
    answer: str
    key: str | None = None
    taken_by: int | None = None
