"""The one verb of every transport, and how a command's statements run on a psycopg connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg.pq import PipelineStatus
from psycopg.rows import tuple_row

from wherry.commands.base import Command, Rows, Statement
from wherry.transport.render import render

R = TypeVar("R")


class Transport(Protocol):
    """Carries commands to whoever answers them."""

    async def call(self, command: Command[R]) -> R:
        """Return the command's answer. Raises Unavailable if nobody can be reached in time."""


def drive(command: Command[R], fetch: Callable[[Statement], Rows]) -> R:
    """Answer *command*; *fetch* runs a statement and returns its rows."""
    answer = command.answer()
    try:
        statement = next(answer)
        while True:
            statement = answer.send(fetch(statement))
    except StopIteration as done:
        value: R = done.value
        return value
    finally:
        answer.close()


async def adrive(command: Command[R], fetch: Callable[[Statement], Awaitable[Rows]]) -> R:
    """Answer *command*; *fetch* runs a statement and returns its rows."""
    answer = command.answer()
    try:
        statement = next(answer)
        while True:
            statement = answer.send(await fetch(statement))
    except StopIteration as done:
        value: R = done.value
        return value
    finally:
        answer.close()


def run(connection: psycopg.Connection[Any], command: Command[R], *, schema: str) -> R:
    """Answer *command* on a connection, in whatever transaction is open there."""
    # Not connection.cursor(): the caller may have set another kind of cursor or row there.
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:

        def fetch(statement: Statement) -> Rows:
            cursor.execute(_text(statement, schema), statement.params)
            return cursor.fetchall() if _has_rows(cursor) else ()

        return drive(command, fetch)


async def arun(connection: psycopg.AsyncConnection[Any], command: Command[R], *, schema: str) -> R:
    """Answer *command* on an async connection, in whatever transaction is open there."""
    async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:

        async def fetch(statement: Statement) -> Rows:
            await cursor.execute(_text(statement, schema), statement.params)
            return await cursor.fetchall() if _has_rows(cursor) else ()

        return await adrive(command, fetch)


def _has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    # In a caller's pipeline nothing has come back yet: fetching waits for it.
    pipeline = cursor.connection.pgconn.pipeline_status
    return cursor.description is not None or pipeline != PipelineStatus.OFF


def _text(statement: Statement, schema: str) -> bytes:
    # Bytes, since psycopg wants a literal string where it is given text.
    return render(statement.name, schema, "pyformat").text.encode()
