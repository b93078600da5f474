"""Runs a command on the connection the caller holds, in the transaction that is open there.

We never commit, roll back, flush or change a setting on it. Which driver it is is told by the
module of its class, so that none is imported that the caller does not use; what a driver raises is
let through.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, TypeVar, cast

from wherry.commands.base import Command

R = TypeVar("R")


class BlockingCaller(Protocol):
    """A connection that blocks."""

    def run(self, command: Command[R], *, schema: str) -> R:
        """Answer *command* in the open transaction."""
        ...


class AsyncCaller(Protocol):
    """A connection that is awaited."""

    async def arun(self, command: Command[R], *, schema: str) -> R:
        """Answer *command* in the open transaction."""
        ...


Caller: TypeAlias = BlockingCaller | AsyncCaller


def caller(tx: Any) -> Caller:
    """Return the caller for *tx*; TypeError names what it is if it is no connection we know."""
    # Not type(tx): the proxies of tools that trace drivers say what they stand for.
    for kind in tx.__class__.__mro__:
        module = kind.__module__.partition(".")[0]
        if module in ("psycopg", "psycopg_pool"):
            from wherry.transport.on_caller import psycopg

            return psycopg.caller(tx)
        if module == "asyncpg":
            from wherry.transport.on_caller import asyncpg

            return asyncpg.caller(tx)
        if module == "sqlalchemy":
            from wherry.transport.on_caller import sqlalchemy

            return sqlalchemy.caller(tx)
    raise refused(tx)


def blocking_caller(tx: Any, *, call: str) -> BlockingCaller:
    """Return the caller for *tx*, used by *call*. Raises TypeError for an awaited one."""
    found = caller(tx)
    if not hasattr(found, "run"):
        raise TypeError(f"tx={_kind(tx)} is awaited, {call}() is not: use `await a{call}(...)`")
    return cast("BlockingCaller", found)


def async_caller(tx: Any, *, call: str) -> AsyncCaller:
    """Return the caller for *tx*, awaited by a*call*. Raises TypeError for a blocking one."""
    found = caller(tx)
    if not hasattr(found, "arun"):
        raise TypeError(
            f"tx={_kind(tx)} blocks, a{call}() must not: use {call}(...) with it,"
            " or pass an async connection"
        )
    return cast("AsyncCaller", found)


def refused(tx: Any, *, instead: str = "") -> TypeError:
    """The error for something that is no open connection of a kind we know.

    *instead* is code that gets one out of it.
    """
    advice = f"; take one out of it: `{instead}: ...`" if instead else ""
    return TypeError(
        f"tx={_kind(tx)}: expected an open psycopg Connection,"
        " AsyncConnection or cursor, an asyncpg Connection, or an SQLAlchemy Connection, Session,"
        f" AsyncConnection or AsyncSession{advice}"
    )


def _kind(tx: Any) -> str:
    kind = cast("type[object]", type(tx))
    return f"{kind.__module__}.{kind.__qualname__}"
