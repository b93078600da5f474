"""What a command is: a small frozen value that knows its statements and what comes back.

A command holds no connection. Its `answer()` yields statements by name and is sent their rows, so
that the same logic runs on our pools, on a caller's connection, behind a server, or in a test.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Sequence[Row]


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL file and its parameters.

    `only_text`: it takes and returns nothing but text and nulls, which any driver reads alike.
    `takes_text`: it takes nothing else, and returns what psycopg makes of it.
    """

    name: str
    params: Mapping[str, Any]
    only_text: bool = False
    takes_text: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """Statements of text and nulls only, one after the other.

    Nobody reads what they return. They may be sent as they are made, before the answers to those
    before them have come: what one of them fails with comes when all have been sent.
    """

    statements: Iterable[Statement]


Answer: TypeAlias = Generator[Statement | Series, Rows, R]


class Command(Generic[R_co]):
    """Something Wherry can be asked to do."""

    # Sent again when it is not known whether it happened; what may not be repeated says False.
    repeatable: ClassVar[bool] = True

    @property
    def atomic(self) -> bool:
        """Whether its statements need one transaction. A single statement is one by itself."""
        return False

    @property
    def limit_seconds(self) -> float | None:
        """How long each of its statements may take, which it sees to itself; None: as any other.

        Whoever carries it raises TimedOut for one that took longer, and sends it no second time.
        """
        return None

    @property
    def brief(self) -> bool:
        """Whether it is about one task, and so waits for one lock at most.

        Then an App takes a shorter silence for a lost connection (transport/bounded.py).
        """
        return False

    def again(self) -> Command[R_co]:
        """The command to send when the answer to this one was lost."""
        return self

    def after_conflict(self) -> Command[R_co]:
        """The command to send when this one met another transaction, and so did not happen."""
        return self

    def answer(self) -> Answer[R_co]:
        """Yield statements, be sent their rows, return what the command promises."""
        raise TypeError(f"{type(self).__name__} has no answer")


def name_of(kind: type[Command[Any]]) -> str:
    """Return a command's name as SQL files, audit and metrics have it: `cancel_tasks`."""
    return _parted(kind.__name__)


@lru_cache(maxsize=256)
def _parted(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
