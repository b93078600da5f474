"""The two ways in, to be held against each other: the library, and `wherry.enqueue(...)` in SQL.

What one refuses the other must refuse, and what both take must be the same row in the end. A third
way, a trigger of the user's own, is the second one in somebody else's statement.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from tests.pg.support import Session
from wherry.domain.durations import number_of_seconds
from wherry.domain.retry import FullJitter, to_json
from wherry.domain.task import Enqueued

Door: TypeAlias = Callable[..., Enqueued]

_INTERVALS = ("delay", "key_ttl", "timeout", "ttl")
_CASTS = {
    "payload": "jsonb",
    "headers": "jsonb",
    "retry": "jsonb",
    "tags": "text[]",
    "run_after": "timestamptz",
    "delay": "interval",
    "key_ttl": "interval",
    "timeout": "interval",
    "ttl": "interval",
}


def library(session: Session, type: str = "t", payload: Any = None, **options: Any) -> Enqueued:
    """Enqueue as a program does."""
    return session.enqueued(type, payload, **options)


def plain_sql(session: Session, type: str = "t", payload: Any = "{}", **options: Any) -> Enqueued:
    """Enqueue as `psql` does; an option that is text already goes in as it is."""
    given = {"queue": "default", "type": type, "payload": payload, **options}
    arguments = ", ".join(f"{name} => %s::{_CASTS.get(name, 'text')}" for name in given)
    arguments = arguments.replace("priority => %s::text", "priority => %s::integer")
    arguments = arguments.replace("max_attempts => %s::text", "max_attempts => %s::integer")
    [[id_, created, matches]] = session.rows(
        f"select id, created, payload_matches from wherry.enqueue({arguments})",
        *(_value(name, value) for name, value in given.items()),
    )
    return Enqueued(id_, created, matches)


def _value(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if name == "payload":
        return json.dumps(value, ensure_ascii=False)
    if name == "retry":
        return json.dumps(to_json(value) if isinstance(value, FullJitter) else value)
    if name == "headers":
        return json.dumps(value)
    if name in _INTERVALS:
        # PostgreSQL 14 reads no text of more seconds than an integer holds.
        hours, seconds = divmod(number_of_seconds(value) or 0.0, 3600)
        return f"{hours:.0f} hours {seconds:.6f} seconds"
    return list(value) if name == "tags" else value


DOORS = [library, plain_sql]
