"""What one call of a server is: its name, its message, and how its answer is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

R = TypeVar("R")


class Me(NamedTuple):
    """Which worker this is; both empty if it is none."""

    worker: str
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rpc(Generic[R]):
    """One call of a server."""

    method: str
    request: Message
    read: Callable[[Any], R]
    # Whether it may be sent again where nobody knows if it has happened.
    repeatable: bool = True
    # What is answered where there is no such thing; None: that is an error.
    if_missing: Callable[[], R] | None = None
    # How long the server is asked to wait before it answers.
    wait_seconds: float = 0.0
