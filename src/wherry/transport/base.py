"""The one verb of every transport, and how a command's statements run on a psycopg connection."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import psycopg
from psycopg.rows import tuple_row

from wherry.commands.base import Command, Rows, Statement
from wherry.transport.render import render

R = TypeVar("R")


class Transport(Protocol):
    """Carries commands to whoever answers them."""

    async def call(self, command: Command[R]) -> R:
        """Return the command's answer. Raises Unavailable if nobody can be reached in time."""


def run(connection: psycopg.Connection[Any], command: Command[R], *, schema: str) -> R:
    """Answer *command* on a connection, in whatever transaction is open there."""
    answer = command.answer()
    try:
        statement = next(answer)
        # Not connection.cursor(): the caller may have set another kind of cursor or row there.
        with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
            while True:
                cursor.execute(_text(statement, schema), statement.params)
                rows: Rows = cursor.fetchall() if cursor.description else ()
                statement = answer.send(rows)
    except StopIteration as done:
        value: R = done.value
        return value
    finally:
        answer.close()


async def arun(connection: psycopg.AsyncConnection[Any], command: Command[R], *, schema: str) -> R:
    """Answer *command* on an async connection, in whatever transaction is open there."""
    answer = command.answer()
    try:
        statement = next(answer)
        async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
            while True:
                await cursor.execute(_text(statement, schema), statement.params)
                rows: Rows = await cursor.fetchall() if cursor.description else ()
                statement = answer.send(rows)
    except StopIteration as done:
        value: R = done.value
        return value
    finally:
        answer.close()


def _text(statement: Statement, schema: str) -> bytes:
    # Bytes, since psycopg wants a literal string where it is given text.
    return render(statement.name, schema, "pyformat").text.encode()
