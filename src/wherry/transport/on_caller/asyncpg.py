"""Commands on an asyncpg connection, or on one that a pool has lent.

What these commands send and are answered is text, so no codec that the caller has set on the
connection comes between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
from asyncpg.pool import PoolConnectionProxy  # pyright: ignore[reportMissingTypeStubs]

from wherry.commands.base import Command, Rows, Statement
from wherry.transport.base import adrive
from wherry.transport.on_caller import Caller, refused
from wherry.transport.render import render

R = TypeVar("R")


def caller(tx: Any) -> Caller:
    """Return the caller for an asyncpg connection."""
    # isinstance() is theirs, and passes over proxies.
    if issubclass(tx.__class__, asyncpg.Connection | PoolConnectionProxy):
        return Awaited(tx)
    if isinstance(tx, asyncpg.Pool):
        raise refused(tx, instead="async with pool.acquire() as connection")
    raise refused(tx)


@dataclass(frozen=True, slots=True)
class Awaited:
    """An asyncpg.Connection."""

    connection: Any

    async def arun(self, command: Command[R], *, schema: str) -> R:
        """Answer *command* in the open transaction."""

        async def fetch(statement: Statement) -> Rows:
            sql = render(statement.name, schema, "dollar")
            values = [statement.params[name] for name in sql.names]
            # The caller may have set another class of records.
            rows = await self.connection.fetch(sql.text, *values, record_class=asyncpg.Record)
            return [tuple(row) for row in rows]

        return await adrive(command, fetch)
