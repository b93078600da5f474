"""One verb over HTTP: where it is asked for, what goes in and comes out, what carries it out."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from wherry.server.http.bodies import Answer, Request
from wherry.server.http.call import Call, Reply


@dataclass(frozen=True, slots=True)
class Operation:
    """One verb: how it is asked for, what goes in and comes out, and what carries it out.

    `asked` is a body for POST, the query's parameters for GET. `statuses` are those of its own,
    beside the ones that every operation may answer.
    """

    rpc: str
    method: str
    path: str
    asked: type[Request]
    answer: type[Answer]
    call: Callable[[Call, Any], Coroutine[Any, Any, Reply]]
    summary: str
    statuses: tuple[int, ...] = ()
    waits: bool = False

    @property
    def name(self) -> str:
        """Return the operation's name in the document: the rpc's, but unique."""
        return "FindTask" if self.path == "/tasks:find" else self.rpc

    @property
    def has_body(self) -> bool:
        """Whether it is asked for with a body."""
        return self.method == "POST"
