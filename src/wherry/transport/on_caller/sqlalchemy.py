"""Commands on an SQLAlchemy connection or session, over whichever driver it uses.

A session is only asked for its connection: it begins as it always does, and flushes nothing. Going
around SQLAlchemy to the driver's connection would not begin: what is sent first commits by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

from sqlalchemy import Connection, Engine, TextClause, table, text, update
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from wherry.commands.base import Command, Rows, Statement
from wherry.transport.base import drive
from wherry.transport.on_caller import Caller, refused
from wherry.transport.render import render

R = TypeVar("R")

# Sessions that send reads to a replica look at the statement: this one writes.
_WRITES: Final = {"clause": update(table("live"))}
# What the caller set for reading large results would put our statement into a cursor.
_OPTIONS: Final = {"stream_results": False, "yield_per": None}


def caller(tx: Any) -> Caller:
    """Return the caller for a connection or session, or for what stands for the current session."""
    if isinstance(tx, scoped_session | async_scoped_session):
        tx = cast("Any", tx)()
    if isinstance(tx, Connection | Session):
        return Blocking(tx)
    if isinstance(tx, AsyncConnection | AsyncSession):
        return Awaited(tx)
    if isinstance(tx, Engine | sessionmaker):
        raise refused(tx, instead="with it.begin() as tx")
    if isinstance(tx, AsyncEngine | async_sessionmaker):
        raise refused(tx, instead="async with it.begin() as tx")
    raise refused(tx)


@dataclass(frozen=True, slots=True)
class Blocking:
    """A Connection or a Session."""

    tx: Connection | Session

    def run(self, command: Command[R], *, schema: str) -> R:
        """Answer *command* in the open transaction."""
        connection = self.tx if isinstance(self.tx, Connection) else _connection(self.tx)
        _check_dialect(connection)

        def fetch(statement: Statement) -> Rows:
            sql = _text(statement.name, schema)
            return connection.execute(sql, statement.params, execution_options=_OPTIONS).all()

        return drive(command, fetch)


@dataclass(frozen=True, slots=True)
class Awaited:
    """An AsyncConnection or an AsyncSession."""

    tx: AsyncConnection | AsyncSession

    async def arun(self, command: Command[R], *, schema: str) -> R:
        """Answer *command* in the open transaction."""
        return await self.tx.run_sync(lambda tx: Blocking(tx).run(command, schema=schema))


def _connection(session: Session) -> Connection:
    try:
        return session.connection(bind_arguments=_WRITES)
    except UnboundExecutionError as error:
        raise TypeError(
            "tx is a Session that does not say which of its engines holds Wherry's tables: pass"
            " the connection, tx=session.connection(bind_arguments={'mapper': ...})"
        ) from error


def _check_dialect(connection: Connection) -> None:
    if connection.dialect.name != "postgresql":
        raise TypeError(
            f"tx is a connection to {connection.dialect.name}; Wherry's tables are in PostgreSQL"
        )


@lru_cache(maxsize=256)
def _text(name: str, schema: str) -> TextClause:
    return text(render(name, schema, "named").text)
