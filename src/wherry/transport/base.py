"""The one verb of every transport, and how a command's statements run on a psycopg connection."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg.pq import PipelineStatus
from psycopg.rows import tuple_row

from wherry.commands.base import Command, Rows, Series, Statement
from wherry.transport.bounded import AsyncConnection, Connection
from wherry.transport.render import render

R = TypeVar("R")

_CAST_TWICE = re.compile(rb"(\$\d+)::text::")


class Transport(Protocol):
    """Carries commands to whoever answers them."""

    async def call(self, command: Command[R]) -> R:
        """Return the command's answer. Raises Unavailable if nobody can be reached in time."""
        ...


def drive(
    command: Command[R],
    fetch: Callable[[Statement], Rows],
    send: Callable[[Series], None] | None = None,
) -> R:
    """Answer *command*; *fetch* runs a statement and returns its rows.

    *send* runs a series; without it each of them is fetched.
    """
    answer = command.answer()
    try:
        asked = next(answer)
        while True:
            if isinstance(asked, Statement):
                asked = answer.send(fetch(asked))
                continue
            if send is not None:
                send(asked)
            else:
                for statement in asked.statements:
                    fetch(statement)
            asked = answer.send(())
    except StopIteration as done:
        value: R = done.value
        return value
    finally:
        answer.close()


async def adrive(
    command: Command[R],
    fetch: Callable[[Statement], Awaitable[Rows]],
    send: Callable[[Series], Awaitable[None]] | None = None,
) -> R:
    """Answer *command*; *fetch* runs a statement and returns its rows.

    *send* runs a series; without it each of them is fetched.
    """
    answer = command.answer()
    try:
        asked = next(answer)
        while True:
            if isinstance(asked, Statement):
                asked = answer.send(await fetch(asked))
                continue
            if send is not None:
                await send(asked)
            else:
                for statement in asked.statements:
                    await fetch(statement)
            asked = answer.send(())
    except StopIteration as done:
        value: R = done.value
        return value
    finally:
        answer.close()


def run(connection: psycopg.Connection[Any], command: Command[R], *, schema: str) -> R:
    """Answer *command* on a connection, in whatever transaction is open there."""
    own = connection if isinstance(connection, Connection) else None

    def fetch(statement: Statement) -> Rows:
        params = statement.params
        if own is not None and (statement.only_text or statement.takes_text):
            text, names = _typed(statement.name, schema)
            values = [params[name] for name in names]
            return own.wait(own.prepared.rows(text, values, as_text=statement.only_text))
        text, names = _rendered(statement.name, schema)
        values = [params[name] for name in names]
        # Not connection.cursor(): the caller may have set another kind of cursor or row there. A
        # raw one, since the others look for parameters in a long statement at every call.
        with psycopg.RawCursor(connection, row_factory=tuple_row) as cursor:
            cursor.execute(text, values)
            return cursor.fetchall() if _has_rows(cursor) else ()

    if own is None:
        return drive(command, fetch)

    def send(series: Series) -> None:
        try:
            for statement in series.statements:
                text, names = _typed(statement.name, schema)
                params = statement.params
                own.wait(own.prepared.ahead(text, [params[name] for name in names]))
        except BaseException:
            # What came of those before it matters no more.
            with suppress(psycopg.Error):
                own.wait(own.prepared.settled())
            raise
        own.wait(own.prepared.settled())

    return drive(command, fetch, send)


async def arun(connection: psycopg.AsyncConnection[Any], command: Command[R], *, schema: str) -> R:
    """Answer *command* on an async connection, in whatever transaction is open there."""
    own = connection if isinstance(connection, AsyncConnection) else None

    async def fetch(statement: Statement) -> Rows:
        params = statement.params
        if own is not None and (statement.only_text or statement.takes_text):
            text, names = _typed(statement.name, schema)
            values = [params[name] for name in names]
            return await own.wait(own.prepared.rows(text, values, as_text=statement.only_text))
        text, names = _rendered(statement.name, schema)
        values = [params[name] for name in names]
        async with psycopg.AsyncRawCursor(connection, row_factory=tuple_row) as cursor:
            await cursor.execute(text, values)
            return await cursor.fetchall() if _has_rows(cursor) else ()

    if own is None:
        return await adrive(command, fetch)

    async def send(series: Series) -> None:
        try:
            for statement in series.statements:
                text, names = _typed(statement.name, schema)
                params = statement.params
                await own.wait(own.prepared.ahead(text, [params[name] for name in names]))
        except BaseException:
            with suppress(psycopg.Error):
                await own.wait(own.prepared.settled())
            raise
        await own.wait(own.prepared.settled())

    return await adrive(command, fetch, send)


def _has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    # Not cursor.description, which makes an object of every column. In a caller's pipeline nothing
    # has come back yet: fetching waits for it.
    pipeline = cursor.connection.pgconn.pipeline_status
    return cursor.rownumber is not None or pipeline != PipelineStatus.OFF


@lru_cache(maxsize=1024)
def _rendered(name: str, schema: str) -> tuple[bytes, tuple[str, ...]]:
    # Bytes, since psycopg wants a literal string where it is given text; and the same ones at
    # every call, since it looks for prepared statements by their hash.
    rendered = render(name, schema, "dollar")
    return rendered.text.encode(), rendered.names


@lru_cache(maxsize=256)
def _typed(name: str, schema: str) -> tuple[bytes, tuple[str, ...]]:
    # To other drivers a parameter is text, which a statement then casts: each of those casts is
    # set up at each run. On our own connections PostgreSQL reads a parameter by its type at once.
    text, names = _rendered(name, schema)
    return _CAST_TWICE.sub(rb"\1::", text), names
