"""What callers are told of an error: one table for both doors.

A caller learns what, where and what to do; never SQL, a traceback, or anything of the database.
What is not in the table is a mistake of ours: it is logged under an id, and the caller gets the id.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

import psycopg

from wherry import errors
from wherry.telemetry.loggers import logger
from wherry.transport.faults import Fault, fault_of, one_line, without_rows

log = logger("wherry.server")

# Reason, gRPC status, HTTP status; the first class that fits counts.
_TABLE: Final[tuple[tuple[type[Exception], str, str, int], ...]] = (
    (errors.InvalidPayload, "INVALID_PAYLOAD", "INVALID_ARGUMENT", 400),
    (errors.InvalidOption, "INVALID_OPTION", "INVALID_ARGUMENT", 400),
    (errors.InvalidTask, "INVALID_TASK", "INVALID_ARGUMENT", 400),
    (errors.NotFound, "NOT_FOUND", "NOT_FOUND", 404),
    (errors.TimedOut, "TIMED_OUT", "DEADLINE_EXCEEDED", 504),
    (errors.LeaseLost, "LEASE_LOST", "FAILED_PRECONDITION", 409),
    (errors.KeyTaken, "KEY_TAKEN", "FAILED_PRECONDITION", 409),
    (errors.NotFinal, "NOT_FINAL", "FAILED_PRECONDITION", 409),
    (errors.Busy, "BUSY", "ABORTED", 409),
    (errors.Unauthenticated, "UNAUTHENTICATED", "UNAUTHENTICATED", 401),
    (errors.PermissionDenied, "PERMISSION_DENIED", "PERMISSION_DENIED", 403),
    (errors.LimitReached, "LIMIT_REACHED", "RESOURCE_EXHAUSTED", 429),
    (errors.PoolExhausted, "OVERLOADED", "UNAVAILABLE", 503),
    (errors.ReadOnly, "DATABASE_READ_ONLY", "UNAVAILABLE", 503),
    (errors.ShuttingDown, "SHUTTING_DOWN", "UNAVAILABLE", 503),
    (errors.Unavailable, "DATABASE_UNAVAILABLE", "UNAVAILABLE", 503),
    (errors.SchemaError, "SCHEMA", "UNAVAILABLE", 503),
)
# What a server says of its database; the errors themselves may hold addresses and more.
_SAID: Final[dict[str, str]] = {
    "OVERLOADED": "the server has no database connection free just now: try again",
    "DATABASE_READ_ONLY": "the database takes no changes just now: try again",
    "DATABASE_UNAVAILABLE": "the database is out of reach just now: try again",
    "SCHEMA": "the server and its database do not fit: its operator has to run wherry migrate",
    "INTERNAL": "the server made a mistake: its operator finds it in the log by the id",
}
_RETRY_SECONDS: Final[dict[str, float]] = {
    "BUSY": 0.1,
    "OVERLOADED": 1.0,
    "DATABASE_READ_ONLY": 1.0,
    "DATABASE_UNAVAILABLE": 1.0,
    "SHUTTING_DOWN": 1.0,
}


# Both doors have other names for these than the library.
_ON_THE_WIRE: Final = {
    "worker": "worker_id",
    "lease_for": "lease_duration",
    "limit": "page_size",
    "after": "page_token",
    "before": "page_token",
}

# In an outage every call fails for the same reason: a line now and then says as much.
_COMPLAIN_EVERY: Final = 5.0


class Complaints:
    """When to log of what fails for a reason that is not the call's own."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._complained_at: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def left_out(self, reason: str) -> int | None:
        """Return how many were not logged since the last that was; None: leave this out too."""
        at = self._complained_at.get(reason)
        if at is not None and self._clock() - at < _COMPLAIN_EVERY:
            self._left_out[reason] = self._left_out.get(reason, 0) + 1
            return None
        self._complained_at[reason] = self._clock()
        return self._left_out.pop(reason, 0)

    def forget(self) -> None:
        """Begin anew."""
        self._complained_at.clear()
        self._left_out.clear()


# Of the process, as its log is.
complaints: Final = Complaints()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error as it goes over the wire; `id` names it in the server's log, if it is there."""

    reason: str
    grpc_status: str
    http_status: int
    detail: str
    field: str | None = None
    index: int | None = None
    retry_seconds: float | None = None
    id: str | None = None


def problem_of(error: Exception, *, doing: str) -> Problem:
    """Return what is told of *error* to whoever asked for *doing*; logs what is our fault."""
    if isinstance(error, psycopg.Error) and fault_of(error) is not Fault.FINAL:
        # A lock that was not had in time, a deadlock: it may go through next time.
        error = errors.Unavailable(one_line(error))
    reason, grpc_status, http_status = next(
        (row[1:] for row in _TABLE if isinstance(error, row[0])), ("INTERNAL", "INTERNAL", 500)
    )
    id = None
    if reason == "INTERNAL":
        id = uuid.uuid4().hex
        log.error("%s failed (%s)", doing, id, exc_info=without_rows(error))
    elif reason in _SAID and (left_out := complaints.left_out(reason)) is not None:
        id = uuid.uuid4().hex
        more = f"; {left_out:,} more calls failed so since the last such line" if left_out else ""
        log.warning("%s failed (%s): %s%s", doing, id, _logged(error), more)
    retry_seconds = _RETRY_SECONDS.get(reason)
    if isinstance(error, errors.LimitReached):
        retry_seconds = error.retry_seconds
    return Problem(
        reason=reason,
        grpc_status=grpc_status,
        http_status=http_status,
        detail=_SAID.get(reason) or str(error),
        field=_field_of(error),
        index=error.index if isinstance(error, errors.InvalidTask) else None,
        retry_seconds=retry_seconds,
        id=id,
    )


def _logged(error: Exception) -> str:
    """Return what an operator is told; the errors' own texts are for those who write an App."""
    if isinstance(error, errors.PoolExhausted):
        return (
            f"no database connection became free in {error.waited.total_seconds():g} s: all"
            f" {error.size} are in use; raise --pool-size"
        )
    return str(error)


def _field_of(error: Exception) -> str | None:
    match error:
        case errors.InvalidPayload(path=path):
            return path
        case errors.InvalidOption(option=option):
            return _ON_THE_WIRE.get(option, option)
        case _:
            return None
