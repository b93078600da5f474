"""An App's own connections: a pool per process and loop, made when it is first needed.

What was lost on the way is sent again until the deadline, if the command allows it. An error that
says that nothing happened (a deadlock, a serialization failure) is always tried again.

A server may be gone though its connections live: a proxy, or its kernel, acknowledges what is sent.
So a silence ends the connection, and all that are older are not trusted any more; what was sent is
sent once more on a new one, even if the deadline has passed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from wherry.commands.base import Command
from wherry.config import PoolSettings
from wherry.domain.lines import on_one_line
from wherry.errors import PoolExhausted, TimedOut, Unavailable
from wherry.transport.attempts import Attempts
from wherry.transport.base import arun
from wherry.transport.bounded import (
    ANSWER_SECONDS,
    BRIEF_ANSWER_SECONDS,
    AsyncConnection,
    NoAnswer,
)
from wherry.transport.connect import connection_text
from wherry.transport.faults import Fault, fault_of, is_time_up, one_line, translated
from wherry.transport.patience import SOON_SECONDS, Patience
from wherry.transport.quiet import quiet_pool
from wherry.transport.use import PoolUse

R = TypeVar("R")

# What went unanswered is sent once more, within this.
_ONCE_MORE_SECONDS = 2.0


class _Pool(AsyncConnectionPool[AsyncConnection]):
    """A pool that looks for its database as often as everybody else of ours."""

    async def _add_connection(self, attempt: Any, growing: bool = False) -> None:
        """Make a connection, or have it tried again in a while."""
        attempt = attempt or Attempts(seconds=self.reconnect_timeout)
        await super()._add_connection(attempt, growing=growing)


class PoolTransport:
    """Carries commands over a pool of connections; at most `settings.size` of them."""

    def __init__(
        self,
        dsn: str,
        *,
        schema: str,
        settings: PoolSettings,
        connected: Callable[[AsyncConnection], object],
    ) -> None:
        """*connected* is called for each new connection, which may be to another server."""
        self.schema = schema
        self.settings = settings
        self._connected = connected
        # Connections made before that may be as dead as the one that said nothing.
        self._silent_at = 0.0
        self._text = connection_text(dsn, name="wherry app", settings=settings)
        self._pool = _Pool(
            self._text,
            name=quiet_pool(),
            connection_class=AsyncConnection,
            kwargs={"autocommit": True, "prepare_threshold": 2},
            min_size=0,
            max_size=settings.size,
            configure=self._configure,
            max_idle=60.0,
            timeout=settings.acquire_timeout.total_seconds(),
            reconnect_timeout=settings.acquire_timeout.total_seconds(),
            open=False,
        )

    async def open(self) -> None:
        """Start the pool; no connection is made before it is needed."""
        await self._pool.open()

    async def close(self) -> None:
        """Close every connection; waits 5 s at most for those in use."""
        await self._pool.close(timeout=5.0)

    def use(self) -> PoolUse:
        """Return how the connections are used now; any thread may ask."""
        stats = self._pool.get_stats()
        return PoolUse(
            most=self.settings.size,
            open=stats.get("pool_size", 0),
            free=stats.get("pool_available", 0),
            waiting=stats.get("requests_waiting", 0),
        )

    async def call(self, command: Command[R]) -> R:
        """Return the command's answer.

        Raises Unavailable when the database stays out of reach for the acquire timeout,
        PoolExhausted when no connection of the pool becomes free in that time.
        """
        deadline = monotonic() + self.settings.acquire_timeout.total_seconds()
        patience: Patience | None = None
        heard_nothing = False
        asked_at = monotonic()
        while True:
            connection: AsyncConnection | None = None
            try:
                connection = await self._trusted()
                return await self._once(connection, command)
            except (psycopg.Error, OSError) as error:
                fault = fault_of(error)
                may_repeat = fault is Fault.TRANSIENT or (
                    fault is Fault.LOST and command.repeatable
                )
                if isinstance(error, NoAnswer) and not heard_nothing:
                    heard_nothing = True
                    deadline = max(deadline, monotonic() + _ONCE_MORE_SECONDS)
                if not may_repeat or monotonic() >= deadline:
                    raise self._given_up(error, fault) from error
                if fault is Fault.TRANSIENT:
                    command = command.after_conflict()
                if fault is Fault.LOST:
                    command = command.again()
                    if connection is not None and connection.made_at < asked_at:
                        # It may have been dead for long, as those that lay idle beside it: that
                        # says nothing of the database now, and each of them is met once only.
                        continue
            patience = patience or Patience(first=0.02, longest=SOON_SECONDS)
            await asyncio.sleep(patience.next_pause())

    async def _once(self, connection: AsyncConnection, command: Command[R]) -> R:
        asked_at = monotonic()
        connection.answer_seconds = BRIEF_ANSWER_SECONDS if command.brief else ANSWER_SECONDS
        try:
            if not command.atomic:
                return await arun(connection, command, schema=self.schema)
            try:
                async with connection.transaction():
                    return await arun(connection, command, schema=self.schema)
            except BaseException:
                connection.prepared.doubt()
                raise
        except psycopg.Error as error:
            if is_time_up(error, command, after_seconds=monotonic() - asked_at):
                raise TimedOut(command.limit_seconds or 0.0) from error
            if isinstance(error, NoAnswer):
                self._silent_at = monotonic()
            if fault_of(error) is Fault.LOST:
                # A read-only or dying server still answers: this connection is of no more use.
                await connection.close()
            raise
        finally:
            await self._pool.putconn(connection)

    async def _trusted(self) -> AsyncConnection:
        """Return a free connection that is younger than the last silence."""
        while True:
            try:
                connection = await self._pool.getconn()
            except PoolTimeout as error:
                raise await self._no_connection() from error
            if connection.made_at >= self._silent_at:
                return connection
            await connection.close()
            await self._pool.putconn(connection)

    async def _configure(self, connection: AsyncConnection) -> None:
        connection.made_at = monotonic()
        await connection.mind_pooler()
        self._connected(connection)

    def _given_up(self, error: psycopg.Error | OSError, fault: Fault) -> Exception:
        if fault is Fault.TRANSIENT:
            # Locks that somebody holds for longer, say: no mistake of the call, and no bug.
            seconds = self.settings.acquire_timeout.total_seconds()
            return Unavailable(
                f"the database did not let it through in {seconds:g} s: {one_line(error)}"
            )
        return translated(error, schema=self.schema) or error

    async def _no_connection(self) -> Unavailable:
        waited: timedelta = self.settings.acquire_timeout
        stats = self._pool.get_stats()
        if stats.get("pool_size", 0) >= self.settings.size and not stats.get("connections_errors"):
            return PoolExhausted(size=self.settings.size, waited=waited)
        return Unavailable(
            f"no connection to the database could be made in {waited.total_seconds():g} s"
            f"{await self._why_not()}"
        )

    async def _why_not(self) -> str:
        """Ask once more, for the reason: the pool does not keep it."""
        try:
            connection = await AsyncConnection.connect(self._text, connect_timeout=2)
        except psycopg.Error as error:
            return f": {on_one_line(str(error))}"
        await connection.close()
        return ""
