"""Errors on the wire: a google.rpc.Status with details, and back to what the library raises.

Nothing here decides what a caller is told: the server does (`server/problems.py`). A status goes in
HTTP/2 trailers, of which there are 8 KiB; whatever is longer is cut, lest the whole error be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import grpc
from google.protobuf.message import DecodeError
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]
    error_details_pb2,
    status_pb2,
)

from wherry import errors
from wherry.wire.v1 import tasks_pb2
from wherry.wire.values import read_duration, write_duration

DOMAIN: Final = "wherry"
DETAILS_KEY: Final = "grpc-status-details-bin"
# A message goes twice, once percent-encoded (three bytes for one), once in base64.
_MESSAGE_LIMIT_BYTES = 1000
# A key has up to 512 of them.
_FIELD_LIMIT_BYTES = 520

# What the exceptions know besides their text, where it is a number or a name.
_FACTS: Final = ("task_id", "token", "key", "taken_by", "index", "option", "seconds")
_KINDS: Final[dict[str, type[errors.WherryError]]] = {
    "INVALID_PAYLOAD": errors.InvalidPayload,
    "INVALID_OPTION": errors.InvalidOption,
    "INVALID_TASK": errors.InvalidTask,
    "NOT_FOUND": errors.NotFound,
    "TIMED_OUT": errors.TimedOut,
    "LEASE_LOST": errors.LeaseLost,
    "KEY_TAKEN": errors.KeyTaken,
    "NOT_FINAL": errors.NotFinal,
    "BUSY": errors.Busy,
    "UNAUTHENTICATED": errors.Unauthenticated,
    "PERMISSION_DENIED": errors.PermissionDenied,
    "LIMIT_REACHED": errors.LimitReached,
    "OVERLOADED": errors.Unavailable,
    "DATABASE_READ_ONLY": errors.ReadOnly,
    "DATABASE_UNAVAILABLE": errors.Unavailable,
    "SHUTTING_DOWN": errors.ShuttingDown,
    "SCHEMA": errors.SchemaError,
}
# For a status that gRPC itself, or a proxy on the way, has answered.
_BARE: Final[dict[grpc.StatusCode, type[errors.WherryError]]] = {
    grpc.StatusCode.UNAVAILABLE: errors.Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.Unavailable,
    grpc.StatusCode.CANCELLED: errors.Unavailable,
    grpc.StatusCode.ABORTED: errors.Unavailable,
    # What gRPC answers for a stream that broke off.
    grpc.StatusCode.UNKNOWN: errors.Unavailable,
    grpc.StatusCode.INTERNAL: errors.Unavailable,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.LimitReached,
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidTask,
    grpc.StatusCode.UNAUTHENTICATED: errors.Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDenied,
}
# What gRPC's own refusal of a message says.
_TOO_LARGE: Final = "larger than max"


class Refused(Protocol):
    """What is needed of a failed call, blocking or awaited."""

    def code(self) -> Any:
        """Return its grpc.StatusCode."""
        ...

    def details(self) -> str | None:
        """Return its text."""
        ...

    def trailing_metadata(self) -> Any:
        """Return pairs of names and values, or None."""
        ...


def facts_of(error: Exception) -> dict[str, str]:
    """Return what *error* knows besides its text, for the one who raises it again elsewhere."""
    facts: dict[str, str] = {}
    for name in _FACTS:
        value: object = getattr(error, name, None)
        if isinstance(value, int | float | str):
            facts[name] = _cut(str(value), _FIELD_LIMIT_BYTES)
    return facts


def write_status(
    code: grpc.StatusCode,
    *,
    reason: str,
    message: str,
    field: str | None = None,
    retry_seconds: float | None = None,
    id: str | None = None,
    facts: Mapping[str, str] | None = None,
) -> status_pb2.Status:
    """Return the status of a failed call.

    *reason* is stable and for programs, *id* names the error in the server's log, *field* is the
    one to blame.
    """
    text = _cut(message, _MESSAGE_LIMIT_BYTES)
    status = status_pb2.Status(code=code.value[0], message=text)
    info = error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=facts or {})
    status.details.add().Pack(info)
    if field is not None:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=_cut(field, _FIELD_LIMIT_BYTES), description=_cut(message, _FIELD_LIMIT_BYTES)
        )
        blamed = error_details_pb2.BadRequest(field_violations=[violation])
        status.details.add().Pack(blamed)
    if retry_seconds is not None:
        delay = write_duration(retry_seconds)
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    if id is not None:
        status.details.add().Pack(error_details_pb2.RequestInfo(request_id=id))
    return status


def write_problem(*, reason: str, message: str, field: str | None = None) -> tasks_pb2.Problem:
    """Return what was wrong with one item of a batch; cut, since a batch may have a thousand."""
    return tasks_pb2.Problem(
        reason=reason,
        message=_cut(message, _MESSAGE_LIMIT_BYTES),
        field=_cut(field or "", _FIELD_LIMIT_BYTES),
    )


def read_problem(problem: tasks_pb2.Problem) -> errors.WherryError:
    """Return what the library would have raised for an item of a batch."""
    kind = _KINDS.get(problem.reason, errors.WherryError)
    return _made(kind, problem.message, field=problem.field or None)


def error_of(call: Refused, *, doing: str, server: str = "the server") -> errors.WherryError:
    """Return what the library would have raised where *server* failed the call *doing*.

    Of Unavailable nothing is known: the call may have happened or not.
    """
    code, text = call.code(), call.details() or "it gave no reason"
    status = _status_of(call)
    info = error_details_pb2.ErrorInfo()
    if status is None or not _unpacked(status, info) or info.domain != DOMAIN:
        return _of_code(code, text, doing=doing, server=server)
    kind = _KINDS.get(info.reason)
    if kind is None:
        # A mistake of the server's, or a reason from a newer one.
        request = error_details_pb2.RequestInfo()
        named = f" (id {request.request_id})" if _unpacked(status, request) else ""
        return errors.WherryError(f"the server refused {doing}: {status.message}{named}")
    blamed = error_details_pb2.BadRequest()
    field = None
    if _unpacked(status, blamed) and blamed.field_violations:
        field = blamed.field_violations[0].field
    retry = error_details_pb2.RetryInfo()
    retry_seconds = None
    if _unpacked(status, retry):
        retry_seconds = read_duration(retry.retry_delay, option="retry_delay")
    return _made(
        kind, status.message, field=field, retry_seconds=retry_seconds, facts=info.metadata
    )


def _of_code(code: Any, text: str, *, doing: str, server: str) -> errors.WherryError:
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return errors.ConfigError(
            f"the server does not know the call {doing}: it is older than this client, or no"
            f" Wherry server at all; upgrade it ({text})"
        )
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in text:
        # So large that the server's gRPC would not read it, or older than a server that tells.
        return errors.LimitReached(f"the request of {doing} is too large: split it ({text})")
    kind = _BARE.get(code, errors.WherryError)
    name = code.name if isinstance(code, grpc.StatusCode) else str(code)
    return kind(f"{server} did not answer {doing}: {name}: {text}")


def _made(
    kind: type[errors.WherryError],
    text: str,
    *,
    field: str | None = None,
    retry_seconds: float | None = None,
    facts: Mapping[str, str] | None = None,
) -> errors.WherryError:
    """Return an error of *kind* with the very text the server gave, and the fields of its kind."""
    # The constructors would build the text from parts that were not sent, such as the value.
    error: Any = kind.__new__(kind, text)
    known = facts or {}
    match error:
        case errors.InvalidPayload():
            error.path, error.reason = field or "payload", text
            error.index = _number(known.get("index"))
        case errors.InvalidOption():
            # The field is named as on the wire, which is not everywhere the library's name.
            error.option, error.value = known.get("option") or field or "", None
            error.reason = text
            error.index = _number(known.get("index"))
        case errors.InvalidTask():
            error.index = _number(known.get("index"))
        case errors.KeyTaken():
            error.key = known.get("key", "")
            error.task_id = _number(known.get("task_id")) or 0
            error.taken_by = _number(known.get("taken_by")) or 0
        case errors.LeaseLost():
            error.task_id = _number(known.get("task_id")) or 0
            error.token = _number(known.get("token")) or 0
        case errors.Busy():
            error.task_id = _number(known.get("task_id")) or 0
        case errors.TimedOut():
            error.seconds = float(known.get("seconds", "nan"))
        case errors.NotFound():
            error.task_id = _number(known.get("task_id"))
        case errors.LimitReached():
            error.retry_seconds = retry_seconds
        case _:
            pass
    made: errors.WherryError = error
    return made


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _status_of(call: Refused) -> status_pb2.Status | None:
    for name, value in call.trailing_metadata() or ():
        if name == DETAILS_KEY:
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                return None
    return None


def _unpacked(status: status_pb2.Status, wanted: Any) -> bool:
    """Fill *wanted* with the detail of its type; False if there is none that can be read."""
    try:
        return any(detail.Unpack(wanted) for detail in status.details)
    except DecodeError:
        return False


def _cut(text: str, limit_bytes: int) -> str:
    data = text.encode(errors="replace")
    if len(data) <= limit_bytes:
        return data.decode()
    return data[: limit_bytes - 3].decode(errors="ignore") + "…"
