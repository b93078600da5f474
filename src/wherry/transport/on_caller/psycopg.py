"""Commands on a psycopg connection, or on the connection of a cursor.

A cursor of our own is used, so that the caller's row factory, cursor class and open results stay
alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, cast

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from wherry.commands.base import Command
from wherry.transport import base
from wherry.transport.on_caller import Caller, refused

R = TypeVar("R")


def caller(tx: Any) -> Caller:
    """Return the caller for a psycopg connection or cursor."""
    connection = getattr(tx, "connection", tx)
    if isinstance(connection, psycopg.Connection):
        return Blocking(cast("Any", connection))
    if isinstance(connection, psycopg.AsyncConnection):
        return Awaited(cast("Any", connection))
    if isinstance(tx, ConnectionPool):
        raise refused(tx, instead="with pool.connection() as connection")
    if isinstance(tx, AsyncConnectionPool):
        raise refused(tx, instead="async with pool.connection() as connection")
    raise refused(tx)


@dataclass(frozen=True, slots=True)
class Blocking:
    """A psycopg.Connection."""

    connection: psycopg.Connection[Any]

    def run(self, command: Command[R], *, schema: str) -> R:
        """Answer *command* in the open transaction."""
        return base.run(self.connection, command, schema=schema)


@dataclass(frozen=True, slots=True)
class Awaited:
    """A psycopg.AsyncConnection."""

    connection: psycopg.AsyncConnection[Any]

    async def arun(self, command: Command[R], *, schema: str) -> R:
        """Answer *command* in the open transaction."""
        return await base.arun(self.connection, command, schema=schema)
