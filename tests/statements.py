"""Counts the statements that this process sends, whatever connection carries them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from wherry.commands.base import Command, Rows, Series, Statement
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

    def noted(self, series: Series) -> Series:
        """Return the same series, each of whose statements is noted as it is made."""

        def each() -> Iterator[Statement]:
            for statement in series.statements:
                self.names.append(statement.name)
                yield statement

        return Series(each())


def count_statements(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Count from now on, at the two places that all transports go through."""
    sent = Sent()
    adrive, drive = base.adrive, base.drive

    async def counting(
        command: Command[R],
        fetch: Callable[[Statement], Awaitable[Rows]],
        send: Callable[[Series], Awaitable[None]] | None = None,
    ) -> R:
        async def noting(statement: Statement) -> Rows:
            sent.names.append(statement.name)
            return await fetch(statement)

        if send is None:
            return await adrive(command, noting)
        return await adrive(command, noting, lambda series: send(sent.noted(series)))

    def counting_blocked(
        command: Command[R],
        fetch: Callable[[Statement], Rows],
        send: Callable[[Series], None] | None = None,
    ) -> R:
        def noting(statement: Statement) -> Rows:
            sent.names.append(statement.name)
            return fetch(statement)

        if send is None:
            return drive(command, noting)
        return drive(command, noting, lambda series: send(sent.noted(series)))

    monkeypatch.setattr(base, "adrive", counting)
    monkeypatch.setattr(base, "drive", counting_blocked)
    return sent
