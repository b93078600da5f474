"""Which tasks somebody looks for, and which page of them, on the wire."""

from __future__ import annotations

from typing import Any, Final

from wherry.domain.filter import Filter
from wherry.domain.state import State
from wherry.wire.tasks import read_page_token, write_page_token
from wherry.wire.v1 import tasks_pb2 as pb
from wherry.wire.values import STATES, read_duration, read_instant, write_duration, write_instant

_PLAIN: Final = ("id", "queue", "type", "tag", "key", "worker", "error", "payload", "fingerprint")
_MOMENTS: Final = ("created_after", "created_before", "finished_after", "finished_before")
# A page that ends where another began is asked for by that one's first task.
_BEFORE: Final = "b"


def write_filter(wanted: Filter) -> pb.TaskFilter:
    """Return the filter; all states are the same as none said."""
    message = pb.TaskFilter(
        id=wanted.id,
        queue=wanted.queue,
        type=wanted.type,
        tag=wanted.tag,
        key=wanted.key,
        worker=wanted.worker,
        error=wanted.error,
        payload=wanted.payload_text,
        fingerprint=wanted.fingerprint,
    )
    if wanted.states != frozenset(State):
        message.states.extend(STATES.write(state) for state in sorted(wanted.states))
    if wanted.older_than_seconds is not None:
        message.older_than.CopyFrom(write_duration(wanted.older_than_seconds))
    for name in _MOMENTS:
        instant = getattr(wanted, name)
        if instant is not None:
            getattr(message, name).CopyFrom(write_instant(instant))
    return message


def read_filter(message: pb.TaskFilter) -> dict[str, Any]:
    """Return what the filter says, unchecked, by the names of FilterOptions."""
    found: dict[str, Any] = {}
    if message.states:
        found["state"] = STATES.read_all(message.states, option="states")
    for name in _PLAIN:
        if _has(message, name):
            found[name] = getattr(message, name)
    if message.HasField("older_than"):
        found["older_than"] = read_duration(message.older_than, option="older_than")
    for name in _MOMENTS:
        if _has(message, name):
            found[name] = read_instant(getattr(message, name), option=name)
    return found


def _has(message: pb.TaskFilter, field: Any) -> bool:
    return message.HasField(field)


def write_place(after: int | None, before: int | None) -> str:
    """Return what gets the page behind one task, or the page before another."""
    return write_page_token(after) if before is None else f"{_BEFORE}{write_page_token(before)}"


def read_place(text: str) -> dict[str, Any]:
    """Return where a page begins or ends (`after`, `before`). Raises InvalidOption."""
    if text.startswith(_BEFORE) and text != _BEFORE:
        return {"after": None, "before": read_page_token(text.removeprefix(_BEFORE))}
    return {"after": read_page_token(text), "before": None}
