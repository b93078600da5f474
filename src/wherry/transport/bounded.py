"""Connections on which no wait is endless.

psycopg waits for an answer as long as the connection lives, and a server that is frozen keeps it
alive: its kernel still acknowledges. Here a wait ends after `answer_seconds`, and the connection
with it, as if it had been lost.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Generator
from functools import cached_property
from time import monotonic
from typing import Any, Self, TypeVar

import psycopg
from psycopg import waiting
from psycopg.waiting import Ready, Wait

from wherry.transport.connect import without_settings
from wherry.transport.prepared import Prepared

R = TypeVar("R")

# Above the server's own statement_timeout, which speaks first if it still can.
ANSWER_SECONDS = 75.0
# Of what waits for one lock at most: above the server's own lock_timeout.
BRIEF_ANSWER_SECONDS = 15.0
_LOOK_EVERY = 0.1


class NoAnswer(psycopg.OperationalError):
    """The server has said nothing for too long; the connection is closed."""


class Connection(psycopg.Connection[Any]):
    """A blocking connection on which no wait is endless."""

    answer_seconds = ANSWER_SECONDS
    made_at = 0.0

    @cached_property
    def prepared(self) -> Prepared:
        """What it has prepared besides what psycopg has."""
        return Prepared(self)

    @classmethod
    def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:
        """Connect; where a pooler lets none of our settings pass, without them."""
        try:
            return super().connect(conninfo, **kwargs)
        except psycopg.OperationalError as error:
            bare = without_settings(conninfo, refused=error)
            if bare is None:
                raise
        return super().connect(bare, **kwargs)

    def wait(self, gen: Generator[Any, Any, R], *args: Any, **limits: Any) -> R:
        """Drive one exchange with the server."""
        return super().wait(_bounded(gen, self), *args, **limits)

    def mind_pooler(self) -> None:
        """Let psycopg prepare nothing if a pooler is in between, which may share sessions.

        Its names for prepared statements are numbers: another client's would run in their place.
        """
        asked = self.execute("select pg_backend_pid()", prepare=False)
        if asked.fetchone() != (self.info.backend_pid,):
            self.prepare_threshold = None


class AsyncConnection(psycopg.AsyncConnection[Any]):
    """A connection on which no wait is endless."""

    answer_seconds = ANSWER_SECONDS
    made_at = 0.0

    @cached_property
    def prepared(self) -> Prepared:
        """What it has prepared besides what psycopg has."""
        return Prepared(self)

    @classmethod
    async def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:
        """Connect; where a pooler lets none of our settings pass, without them."""
        try:
            return await super().connect(conninfo, **kwargs)
        except psycopg.OperationalError as error:
            bare = without_settings(conninfo, refused=error)
            if bare is None:
                raise
        return await super().connect(bare, **kwargs)

    async def wait(self, gen: Generator[Any, Any, R], *args: Any, **limits: Any) -> R:
        """Drive one exchange with the server."""
        return await super().wait(_bounded(gen, self), *args, **limits)

    async def mind_pooler(self) -> None:
        """Let psycopg prepare nothing if a pooler is in between, which may share sessions.

        Its names for prepared statements are numbers: another client's would run in their place.
        """
        asked = await self.execute("select pg_backend_pid()", prepare=False)
        if await asked.fetchone() != (self.info.backend_pid,):
            self.prepare_threshold = None


class Reserved(Connection):
    """A blocking connection of one of the worker's own loops."""


class AsyncReserved(AsyncConnection):
    """A connection of one of the worker's own loops: a wait that is canceled ends at once.

    psycopg would ask the server to cancel the statement, and wait for that; who is told to end may
    have no time for it. And a commit that is canceled while it waits for a standby answers success.
    """

    async def wait(  # type: ignore[override]  # later versions of psycopg have more limits
        self, gen: Generator[Any, Any, R], interval: float = _LOOK_EVERY, **limits: Any
    ) -> R:
        """Drive one exchange with the server."""
        try:
            return await waiting.wait_async(
                _bounded(gen, self), self.pgconn.socket, interval=interval, **limits
            )
        except asyncio.CancelledError:
            self.pgconn.finish()
            raise


def _bounded(
    gen: Generator[Any, Any, R], connection: Connection | AsyncConnection
) -> Generator[Any, Any, R]:
    """Pass on what *gen* waits for; psycopg comes back every tenth of a second at the latest."""
    seconds = connection.answer_seconds
    ends_at = monotonic() + seconds
    try:
        wanted = next(gen)
        goes_on = False
        while True:
            ready = Ready.R if goes_on else (yield wanted)
            if monotonic() >= ends_at:
                connection.pgconn.finish()
                raise NoAnswer(f"no answer from the server in {seconds:g} s")
            wanted = gen.send(ready)
            # An answer of a thousand rows is read in fifteen pieces. To have an event loop wait for
            # each takes longer than to read it, and other tasks have their turns in between.
            goes_on = wanted == Wait.R and bool(ready) and _has_come(connection.pgconn.socket)
    except StopIteration as done:
        value: R = done.value
        return value


def _has_come(socket: int) -> bool:
    """Say whether there is something to be read; False where nobody can be asked (Windows)."""
    if not hasattr(select, "poll"):
        return False
    asked = select.poll()
    asked.register(socket, select.POLLIN)
    return bool(asked.poll(0))
