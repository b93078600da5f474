"""What the database knows of a task, as plain values.

Payload, headers, policy and result are kept as the text that was stored and decoded at each look,
so that a handler that changes its copy changes nothing else, and so that one unreadable text does
not hide the rest of a listing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, Self, cast

from wherry.domain.durations import Duration
from wherry.domain.limits import QueueLimits
from wherry.domain.state import State
from wherry.domain.stored import decode, decode_result
from wherry.errors import ConfigError


class ResultReader(Protocol):
    """What `Enqueued` needs of the App that made it."""

    def result(self, id: int, *, timeout: Duration) -> Any:
        """Wait for a task's stored result, blocking."""

    async def aresult(self, id: int, *, timeout: Duration) -> Any:
        """Wait for a task's stored result."""


class _OfApp:
    """Holds the App that gave an answer, which is no part of the answer's value."""

    __slots__ = ("_app",)
    _app: ResultReader | None


@dataclass(frozen=True, slots=True)
class Enqueued(_OfApp):
    """The answer to an enqueue.

    `created` is False when the key already named a task: then `id` is that task's, and
    `payload_matches` tells whether it has the same type and payload. Without a key it is None.
    """

    id: int
    created: bool
    payload_matches: bool | None = None
    # Who is asked for the result. No field: `asdict` and pickle take the value alone.
    app: InitVar[ResultReader | None] = None

    def __post_init__(self, app: ResultReader | None) -> None:
        object.__setattr__(self, "_app", app)

    def __copy__(self) -> Self:
        """Return this very answer, since nothing changes in it."""
        return self

    def __deepcopy__(self, _: object) -> Self:
        """Return this very answer: a copy of its App would be none."""
        return self

    def result(self, *, timeout: Duration) -> Any:
        """Wait for the task's stored result, blocking; see App.result."""
        return self._reader().result(self.id, timeout=timeout)

    async def aresult(self, *, timeout: Duration) -> Any:
        """Wait for the task's stored result; see App.aresult."""
        return await self._reader().aresult(self.id, timeout=timeout)

    def told_by(self, app: ResultReader) -> Enqueued:
        """Return this very answer as the App's own; only before anybody else has seen it.

        A second answer for each task of a batch would cost as much as the first.
        """
        object.__setattr__(self, "_app", app)
        return self

    def _reader(self) -> ResultReader:
        # One that was pickled has none.
        app = getattr(self, "_app", None)
        if app is None:
            raise ConfigError(
                f"no App stored task {self.id} here: in wherry.testing.context() nothing is stored;"
                " for an answer that came from another process ask an App of this one,"
                f" app.result({self.id}, timeout=...)"
            )
        return cast("ResultReader", app)


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
class HeldLease:
    """Who may run a task just now, and until when, unless it is extended."""

    worker: str | None
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it stood when it was read; the fields are those of a row, in its order.

    `worker` is who holds its lease, or who ended it.
    """

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
    headers_text: str | None
    retry_text: str | None
    timeout_seconds: float | None
    result_text: str | None
    reason: str | None
    error: str | None
    cancel_requested_at: datetime | None
    history: tuple[Attempt, ...] = ()

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Task:
        """Return the task of a row; what is in its texts is read at the first look."""
        columns: list[Any] = [*row]
        columns[4], columns[16] = State(row[4]), tuple(row[16] or ())
        return cls(*columns)

    @property
    def lease(self) -> HeldLease | None:
        """The lease on it, or None."""
        ends = self.lease_expires_at
        return None if ends is None else HeldLease(self.worker, ends)

    @property
    def payload(self) -> dict[str, Any]:
        """A fresh copy at each look. Raises DecodeError if the stored text is not readable."""
        return decode(self.payload_text)

    @property
    def headers(self) -> dict[str, str]:
        """The headers it was enqueued with, as fresh and as readable as the payload."""
        return decode(self.headers_text, what="headers") if self.headers_text else {}

    @property
    def retry(self) -> dict[str, Any] | None:
        """The stored retry policy, or None, as fresh and as readable as the payload."""
        return decode(self.retry_text, what="retry policy") if self.retry_text else None

    @property
    def result(self) -> Any:
        """The stored result, or None; a fresh copy at each look."""
        return None if self.result_text is None else decode_result(self.result_text)


@dataclass(frozen=True, slots=True)
class Page:
    """Some tasks, newest first; pass `after` to get the next ones (None: there are no more).

    `before` gets those that come before them, which are newer (None: these were the newest).
    """

    tasks: tuple[Task, ...]
    after: int | None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many live tasks a queue holds, by what they wait for, and the oldest due one's age.

    While it is paused, nothing is leased from it: since when, by whom and why. Else None. So are
    its limits, if it has none; `leased` is what counts against them.
    """

    queue: str
    ready: int
    delayed: int
    parked: int
    leased: int
    oldest_due_seconds: float | None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    limits: QueueLimits | None = None


@dataclass(frozen=True, slots=True)
class PausedType:
    """A type of which nothing is leased, in one queue or (None) in all; since when, who, why."""

    type: str
    queue: str | None
    paused_at: datetime
    paused_by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class QueuePause:
    """Nothing is leased from a queue: since when, who, why."""

    paused_at: datetime
    paused_by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a resume did, and what holds all the same; true if something was paused and is not now.

    `still_paused`: of a queue, the types that are paused in it or in all queues; of a type, where
    else it is paused. `queue_pause`: that of the queue that a type was resumed in.
    """

    changed: bool
    still_paused: tuple[PausedType, ...] = ()
    queue_pause: QueuePause | None = None

    def __bool__(self) -> bool:
        return self.changed


class Canceled(StrEnum):
    """The answer to a cancel."""

    CANCELED = "canceled"
    REQUESTED = "requested"
    FINAL = "final"
    UNKNOWN = "unknown"


class RequeueAnswer(StrEnum):
    """What a requeue did; a task in somebody else's hands just now counts as not final.

    Where payloads were to be changed, two more were left alone as they were: NO_OBJECT, since
    nothing can be merged into such a payload, and TOO_LARGE, since it would be over the limit.
    """

    QUEUED = "queued"
    KEY_TAKEN = "key_taken"
    NOT_FINAL = "not_final"
    UNKNOWN = "unknown"
    NO_OBJECT = "no_object"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class Requeued:
    """The answer to a requeue; for KEY_TAKEN with the key, and the task that it names."""

    id: int
    answer: RequeueAnswer
    key: str | None = None
    taken_by: int | None = None


class Replanned(StrEnum):
    """The answer to a change of a queued task's priority or time.

    LEASED: a worker has it, or somebody else just now; it is left alone.
    """

    CHANGED = "changed"
    LEASED = "leased"
    FINAL = "final"
    UNKNOWN = "unknown"


class Purged(StrEnum):
    """The answer to a purge; a task in somebody else's hands just now counts as not final."""

    PURGED = "purged"
    NOT_FINAL = "not_final"
    UNKNOWN = "unknown"
