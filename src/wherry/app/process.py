"""What one App holds in one process: its database, its pools, its ambient transaction.

A pool belongs to one process, and an async one to one event loop: after a fork, or in a test's next
loop, there is another one. What a closed loop has left behind is let go of when the next pool is
made. Nothing is opened before it is needed. Where the DSN is a server's address, a channel to that
server takes the place of a pool.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any, Protocol, TypeVar

import psycopg

from wherry import embedded
from wherry.app.ids import TaskIds
from wherry.app.loop import refuse_in_loop, refuse_unfit_loop
from wherry.app.own_leases import with_own_leases
from wherry.app.tracing import Tracing, found
from wherry.commands.audit import Actor, audited
from wherry.commands.base import Command
from wherry.config import (
    DEFAULT_POOL_SIZE,
    DEFAULT_POOL_TIMEOUT,
    DEFAULT_SCHEMA,
    DSN_VARIABLE,
    PoolSettings,
)
from wherry.domain.durations import Duration, seconds_from
from wherry.domain.names import check_schema
from wherry.domain.options import check_integer
from wherry.dsn import check_text, is_server, read_dsn, read_server
from wherry.errors import ConfigError, DSNMissing, MigrationError
from wherry.migrations import migrate
from wherry.own_lock import OwnLock
from wherry.tasks.task import AMBIENT
from wherry.telemetry.meters import Meters
from wherry.telemetry.readings import steadily
from wherry.transport import pool, pool_blocking
from wherry.transport.base import Transport
from wherry.transport.grpc import needed
from wherry.transport.on_caller import async_caller, blocking_caller
from wherry.transport.timed import timing
from wherry.transport.use import PoolUse

R = TypeVar("R")


class OurTransport(Transport, Protocol):
    """What carries the calls of one loop: a pool of connections, or a channel to a server."""

    async def open(self) -> None:
        """Make ready; nothing is connected before it is needed."""
        ...

    async def close(self) -> None:
        """Close all that is open."""
        ...


class OurBlockingTransport(Protocol):
    """The same for blocking calls."""

    def call(self, command: Command[R]) -> R:
        """Return the command's answer."""
        ...

    def open(self) -> None:
        """Make ready."""
        ...

    def close(self) -> None:
        """Close all that is open."""
        ...


class Process:
    """The parts of an App that touch the outside world."""

    _ids: TaskIds

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = DEFAULT_SCHEMA,
        tx: Callable[[], Any] | None = None,
        pool_size: int = DEFAULT_POOL_SIZE,
        pool_timeout: Duration = DEFAULT_POOL_TIMEOUT,
    ) -> None:
        self.schema = check_schema(schema)
        waits = seconds_from(pool_timeout, option="pool_timeout", zero_allowed=False)
        self.settings = PoolSettings(
            size=check_integer(pool_size, option="pool_size", least=1, most=1000),
            acquire_timeout=timedelta(seconds=waits),
        )
        # Who uses this App by hand, such as an operator at a command line: then what they change of
        # others' leaves rows in the audit. What programs do with their own tasks leaves none.
        self.actor: Actor | None = None
        # Whoever wants to read metrics gives it some, before a worker or a server begins.
        self.meters: Meters | None = None
        self._tracing: Tracing | None = None
        self._looked_for_tracing = False
        self._given_dsn = dsn
        self._real_dsn: str | None = None
        self._embedded: embedded.Embedded | None = None
        self._ambient = tx
        self._own = OwnLock(threading.RLock)
        self._pid = os.getpid()
        self._pool: OurBlockingTransport | None = None
        # Not by weak keys: a pool knows its loop.
        self._pools: dict[asyncio.AbstractEventLoop, OurTransport] = {}
        self._connections: dict[
            asyncio.AbstractEventLoop, weakref.WeakSet[psycopg.AsyncConnection[Any]]
        ] = {}
        self._of_parent: list[object] = []

    @property
    def dsn(self) -> str:
        """The real DSN, or a server's address. `embedded:` is started, and migrated, at first use.

        Raises DSNMissing, or ConfigError for a text that is no DSN.
        """
        with self._own.lock:
            if self._real_dsn is None:
                given = self._given_dsn or os.environ.get(DSN_VARIABLE)
                if not given:
                    raise DSNMissing
                home = embedded.parse(check_text(given))
                if is_server(given):
                    read_server(given)
                    self._real_dsn = given
                elif home is None:
                    read_dsn(given)
                    self._real_dsn = given
                else:
                    self._embedded = embedded.acquire(home)
                    self._real_dsn = self._embedded.dsn
                    try:
                        migrate(self._real_dsn, schema=self.schema)
                    except MigrationError as error:
                        error.add_note(
                            f"This is the embedded database in {self._embedded.home}: if nothing in"
                            " it matters, stop what uses it and remove that folder."
                        )
                        raise
            return self._real_dsn

    @dsn.setter
    def dsn(self, dsn: str) -> None:
        if self._real_dsn is not None:
            raise ConfigError("the App has been used already: its DSN cannot be changed now")
        self._given_dsn = dsn

    @property
    def through_server(self) -> bool:
        """Whether calls go to a server, which has the database; nothing is started for the answer.

        Raises ConfigError for a DSN that is no text.
        """
        dsn = self._real_dsn or self._given_dsn or os.environ.get(DSN_VARIABLE)
        return dsn is not None and is_server(check_text(dsn))

    @property
    def tracing(self) -> Tracing | None:
        """What makes spans, if this program has an SDK; it is looked for once."""
        if not self._looked_for_tracing:
            self.tracing = found()
        return self._tracing

    @tracing.setter
    def tracing(self, tracing: Tracing | None) -> None:
        self._tracing, self._looked_for_tracing = tracing, True

    def move(self, dsn: str | None) -> str | None:
        """Use another database from now on; returns what named the last one (None: $WHERRY_DSN).

        For tests, where every one has a database of its own. Closes the blocking pool; raises
        ConfigError while a loop that is not closed has a pool, which only that loop can close.
        """
        with self._own.lock:
            self._leave_closed_loops()
            if self._pools:
                raise ConfigError(
                    "the App has connections in an event loop: `await app.aclose()` there, before"
                    " it gets another database"
                )
            self.close()
            self._real_dsn = None
            # Ids in stock were drawn in the other database, and may be taken in the next.
            self._ids = TaskIds()
            before, self._given_dsn = self._given_dsn, dsn
            return before

    def ambient(self, tx: Any) -> Any:
        """The connection a call belongs to: the one given, or what App(tx=...) names, if any."""
        if tx is AMBIENT:
            return self._ambient() if self._ambient is not None else None
        return tx

    def carry(self, command: Command[R], *, tx: Any = None, call: str = "call") -> R:
        """Answer a command, blocking: on the caller's connection, or on our pool."""
        command = audited(command, self.actor)
        if tx is not None or not self.through_server:
            command = with_own_leases(command)
        if tx is not None:
            return blocking_caller(tx, call=call).run(command, schema=self.schema)
        refuse_in_loop(call)
        if self.meters is None:
            return self._blocking_pool().call(command)
        with timing(command, self.meters):
            return self._blocking_pool().call(command)

    async def acarry(self, command: Command[R], *, tx: Any = None, call: str = "call") -> R:
        """Answer a command: on the caller's connection, or on this loop's pool."""
        command = audited(command, self.actor)
        if tx is not None or not self.through_server:
            command = with_own_leases(command)
        if tx is not None:
            return await async_caller(tx, call=call).arun(command, schema=self.schema)
        transport = await self._async_pool()
        if self.meters is None:
            return await transport.call(command)
        with timing(command, self.meters):
            return await transport.call(command)

    @property
    def pool_use(self) -> list[PoolUse]:
        """Return how the pools of connections are used now, in whichever loop they are."""
        made = [self._pool, *steadily(lambda: list(self._pools.values()))]
        kinds = (pool.PoolTransport, pool_blocking.PoolTransport)
        return [each.use() for each in made if isinstance(each, kinds)]

    def close(self) -> None:
        """Close this process's blocking pool and let go of an embedded server."""
        with self._own.lock:
            self._notice_fork()
            self._leave_closed_loops()
            if self._pool is not None:
                self._pool.close()
            self._pool = None
            if self._embedded is not None and not self._pools:
                self._embedded.release()
                self._embedded = None
                self._real_dsn = None

    async def aclose(self) -> None:
        """Close this loop's pool, and the rest as `close` does."""
        await self.aclose_loop()
        await asyncio.to_thread(self.close)

    async def aclose_loop(self) -> None:
        """Close the pool of the running loop only."""
        loop = asyncio.get_running_loop()
        transport = self._pools.pop(loop, None)
        if transport is not None:
            await transport.close()
        self._connections.pop(loop, None)

    def _blocking_pool(self) -> OurBlockingTransport:
        made = self._pool
        if made is not None and self._pid == os.getpid():
            return made
        with self._own.lock:
            self._notice_fork()
            if self._pool is None:
                self._pool = self._made_blocking(self.dsn)
                self._pool.open()
                atexit.register(_close_quietly, weakref.ref(self._pool), self._pid)
            return self._pool

    async def _async_pool(self) -> OurTransport:
        self._notice_fork()
        loop = asyncio.get_running_loop()
        transport = self._pools.get(loop)
        if transport is None:
            if not self.through_server:
                refuse_unfit_loop()
            dsn = await asyncio.to_thread(self.prepared_dsn)
            transport = self._pools.get(loop)
            if transport is None:
                self._leave_closed_loops()
                transport = self._made(dsn)
                self._pools[loop] = transport
                await transport.open()
        return transport

    def prepared_dsn(self) -> str:
        """Return the DSN when what it needs is there; takes long at first, so call it off a loop.

        An embedded server is started; gRPC is imported.
        """
        dsn = self.dsn
        if is_server(dsn):
            with needed():
                import_module("wherry.transport.grpc.client")
        return dsn

    def _made(self, dsn: str) -> OurTransport:
        if not is_server(dsn):
            return pool.PoolTransport(
                dsn, schema=self.schema, settings=self.settings, connected=self._connected
            )
        with needed():
            from wherry.transport.grpc.client import GrpcTransport
        return GrpcTransport(read_server(dsn), patience_seconds=self._patience_seconds)

    def _made_blocking(self, dsn: str) -> OurBlockingTransport:
        if not is_server(dsn):
            return pool_blocking.PoolTransport(
                dsn, schema=self.schema, settings=self.settings, connected=self._forget_ids
            )
        with needed():
            from wherry.transport.grpc.client_blocking import GrpcTransport
        return GrpcTransport(read_server(dsn), patience_seconds=self._patience_seconds)

    def _connected(self, connection: psycopg.AsyncConnection[Any]) -> None:
        loop = asyncio.get_running_loop()
        self._connections.setdefault(loop, weakref.WeakSet()).add(connection)
        self._forget_ids(connection)

    def _forget_ids(self, _: object) -> None:
        """What a new connection leads to may have drawn those in stock for somebody else."""
        self._ids.forget()

    def _leave_closed_loops(self) -> None:
        """Close what was left behind in loops that are closed: nobody can ask their pools to.

        One program after the other of `asyncio.run` would take all connections that there are.
        """
        for loop in steadily(lambda: [each for each in self._pools if each.is_closed()]):
            self._pools.pop(loop, None)
            for connection in self._connections.pop(loop, ()):
                connection.pgconn.finish()

    @property
    def _patience_seconds(self) -> float:
        return self.settings.acquire_timeout.total_seconds()

    def _notice_fork(self) -> None:
        with self._own.lock:
            if self._pid != os.getpid():
                # The parent's connections are not ours to use, nor to close. Nor to collect as
                # garbage: their pools would stop threads and tasks that are not here.
                self._of_parent += [self._pool, self._pools, self._connections]
                self._pid = os.getpid()
                self._pool = None
                self._pools, self._connections = {}, {}


def _close_quietly(ref: weakref.ref[OurBlockingTransport], pid: int) -> None:
    transport = ref()
    if transport is not None and pid == os.getpid():
        transport.close()
