"""Counts the statements that this process sends, whatever connection carries them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from wherry.commands.base import Command, Rows, Statement
from wherry.transport import base

R = TypeVar("R")


class Sent:
    """The names of the statements that were sent, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def count(self, name: str) -> int:
        return self.names.count(name)

    def clear(self) -> None:
        self.names.clear()


def count_statements(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Count from now on, at the two places that all transports go through."""
    sent = Sent()
    adrive, drive = base.adrive, base.drive

    async def counting(command: Command[R], fetch: Callable[[Statement], Awaitable[Rows]]) -> R:
        async def noting(statement: Statement) -> Rows:
            sent.names.append(statement.name)
            return await fetch(statement)

        return await adrive(command, noting)

    def counting_blocked(command: Command[R], fetch: Callable[[Statement], Rows]) -> R:
        def noting(statement: Statement) -> Rows:
            sent.names.append(statement.name)
            return fetch(statement)

        return drive(command, noting)

    monkeypatch.setattr(base, "adrive", counting)
    monkeypatch.setattr(base, "drive", counting_blocked)
    return sent
