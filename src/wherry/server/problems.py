"""What callers are told of an error: one table for both doors.

A caller learns what, where and what to do; never SQL, a traceback, or anything of the database.
What is not in the table is a mistake of ours: it is logged under an id, and the caller gets the id.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import Final

import psycopg

from wherry import errors
from wherry.transport.faults import Fault, fault_of, one_line, without_rows

log = logging.getLogger("wherry.server")

# Reason, gRPC status, HTTP status; the first class that fits counts.
_TABLE: Final[tuple[tuple[type[Exception], str, str, int], ...]] = (
    (errors.InvalidPayload, "INVALID_PAYLOAD", "INVALID_ARGUMENT", 400),
    (errors.InvalidOption, "INVALID_OPTION", "INVALID_ARGUMENT", 400),
    (errors.InvalidTask, "INVALID_TASK", "INVALID_ARGUMENT", 400),
    (errors.NotFound, "NOT_FOUND", "NOT_FOUND", 404),
    (errors.LeaseLost, "LEASE_LOST", "FAILED_PRECONDITION", 409),
    (errors.KeyTaken, "KEY_TAKEN", "FAILED_PRECONDITION", 409),
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
    if reason in _SAID:
        id = uuid.uuid4().hex
        if reason == "INTERNAL":
            log.error("%s failed (%s)", doing, id, exc_info=without_rows(error))
        else:
            log.warning("%s failed (%s): %s", doing, id, error)
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


def _field_of(error: Exception) -> str | None:
    match error:
        case errors.InvalidPayload(path=path):
            return path
        case errors.InvalidOption(option=option):
            return option
        case _:
            return None
