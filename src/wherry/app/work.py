"""Composes a worker in this process: its connections, its keeper, its listener, its maintenance.

Besides the App's own pool a worker holds at most five connections: leasing, reporting, maintenance,
the heartbeat and the listener. None of them is shared with handlers, so no handler can keep a
heartbeat waiting. A worker that has only a server holds two: leasing and reporting, the heartbeat.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from wherry.app.app import App
from wherry.app.asked import asked_lease_seconds, asked_queues
from wherry.commands.remote import GetServer
from wherry.commands.workers import EVERY_QUEUE, BeatWorker, LeaveWorker
from wherry.config import WorkerSettings
from wherry.doctor.guard import require_fit
from wherry.domain.durations import Duration, seconds_from
from wherry.domain.options import check_flag, check_integer, check_name
from wherry.domain.worker import Directive
from wherry.dsn import is_server, read_server
from wherry.errors import (
    ConfigError,
    InvalidOption,
    PermissionDenied,
    Unavailable,
    WherryError,
)
from wherry.maintenance.service import Maintenance
from wherry.telemetry.loggers import logger
from wherry.transport.base import Transport
from wherry.transport.bounded import ANSWER_SECONDS
from wherry.transport.connect import BRIEF, BRIEF_SECONDS, NO_WAIT
from wherry.transport.faults import without_rows
from wherry.transport.grpc import needed
from wherry.transport.listen import Listener
from wherry.transport.session import SessionTransport
from wherry.transport.session_blocking import SessionTransport as BlockingSession
from wherry.worker.keeper import Beats, Keeper
from wherry.worker.remote import RemoteSource
from wherry.worker.signals import handled
from wherry.worker.source import LocalSource, Source
from wherry.worker.summary import Summary
from wherry.worker.wakeups import Wakeups
from wherry.worker.worker import Worker

log = logger("wherry.worker")

_BLOCKED_AFTER_SECONDS = 1.0
_LEAVE_WITHIN_SECONDS = 1.0


def worker_settings(
    *,
    concurrency: int,
    lease_for: Duration,
    shutdown_timeout: Duration,
    listen: bool,
    allow_unsafe_database: bool = False,
) -> WorkerSettings:
    """Return checked settings. Raises InvalidOption."""
    lease_seconds = asked_lease_seconds(lease_for)
    if lease_seconds < 1:
        raise InvalidOption("lease_for", lease_for, "must be at least 1 s: a worker has to beat")
    return replace(
        WorkerSettings(),
        concurrency=check_integer(concurrency, option="concurrency", least=1, most=10_000),
        lease_for=timedelta(seconds=lease_seconds),
        shutdown_timeout=timedelta(
            seconds=seconds_from(shutdown_timeout, option="shutdown_timeout")
        ),
        listen=check_flag(listen, option="listen"),
        allow_unsafe_database=check_flag(allow_unsafe_database, option="allow_unsafe_database"),
    )


async def run_worker(
    app: App,
    *,
    queues: Sequence[str] | None,
    settings: WorkerSettings,
    name: str | None = None,
    until_empty: bool = False,
    signals: bool = False,
) -> Summary:
    """Run a worker until it is stopped; canceling this drains it, canceling it again hurries it.

    *queues*: None for those of the registered types, `["*"]` for every queue there is. *signals*:
    stop on SIGTERM and the like; only where the loop belongs to the worker.
    """
    app.load()
    if not len(app.registry):
        raise ConfigError(
            "no task type is registered, so there is nothing to work on: name the modules with"
            " handlers in App(imports=[...]), or import them before the worker starts"
        )
    served = _served(app, queues)
    dsn = await asyncio.to_thread(app.prepared_dsn)
    if name is None:
        name = f"{socket.gethostname()}-{os.getpid()}"
    check_name(name, option="name")
    plan = _Plan(app, dsn, name, served, settings, until_empty)
    async with AsyncExitStack() as stack:
        compose = _remote if is_server(dsn) else _local
        parts = await compose(plan, stack)
        services = [asyncio.create_task(run(), name=of) for of, run in parts.services.items()]
        parts.keeper.start()
        try:
            with (
                handled(stop=parts.worker.stop, hurry=parts.worker.hurry)
                if signals
                else nullcontext()
            ):
                # Whoever reads this may send a signal right away: it is handled by now.
                log.info(
                    "worker %s: %d slots, queues %s, types known: %d%s",
                    name,
                    settings.concurrency,
                    "*" if served is None else ", ".join(served),
                    len(app.registry),
                    f", through {read_server(dsn)}" if is_server(dsn) else "",
                )
                return await _drained(parts.worker, services)
        finally:
            parts.keeper.stop()
            for service in services:
                service.cancel()
            if services:
                await asyncio.wait(services, timeout=_LEAVE_WITHIN_SECONDS)
            await _say_goodbye(parts.transport, parts.goodbye)
            await asyncio.to_thread(lambda: parts.keeper.join(timeout=_LEAVE_WITHIN_SECONDS))


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a worker is made from."""

    app: App
    dsn: str
    name: str
    queues: tuple[str, ...] | None
    settings: WorkerSettings
    until_empty: bool

    @property
    def lease_seconds(self) -> float:
        return self.settings.lease_for.total_seconds()

    def beat(self, instance: str) -> BeatWorker:
        """Return what is said of it at each beat."""
        return BeatWorker(
            instance=instance,
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=self.queues,
            types=self.app.registry.names,
        )

    def worker(
        self, source: Source, reporting: Transport, *, reporting_too: Transport | None = None
    ) -> Worker:
        """Return the worker itself; *reporting_too* is used where reports pile up."""
        return Worker(
            self.app,
            self.app.registry,
            source=source,
            reporting=reporting,
            reporting_too=reporting_too,
            name=self.name,
            settings=self.settings,
            until_empty=self.until_empty,
        )

    def keeper(self, transport: Beats, worker: Worker, me: BeatWorker) -> Keeper:
        """Return what keeps its leases alive."""
        return Keeper(
            transport,
            worker.held,
            me=me,
            lease_seconds=self.lease_seconds,
            blocked_after=_BLOCKED_AFTER_SECONDS,
            call_soon=asyncio.get_running_loop().call_soon_threadsafe,
            tell=worker.news,
        )

    @property
    def beat_answer_seconds(self) -> float:
        # A beat that comes later than this comes too late for some lease.
        return max(2.0, self.lease_seconds / 2)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A worker with all that it needs; *goodbye* goes over *transport* at its end."""

    worker: Worker
    keeper: Keeper
    transport: Transport
    goodbye: LeaveWorker
    services: Mapping[str, Callable[[], Coroutine[Any, Any, None]]]


async def _local(plan: _Plan, stack: AsyncExitStack) -> _Parts:
    """Compose a worker on the database itself."""
    app, dsn, settings = plan.app, plan.dsn, plan.settings
    allow_unsafe = settings.allow_unsafe_database
    await asyncio.to_thread(lambda: require_fit(dsn, schema=app.schema, allow_unsafe=allow_unsafe))
    me = plan.beat(str(uuid.uuid4()))

    def session(
        purpose: str,
        options: dict[str, str] | None = None,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> SessionTransport:
        transport = SessionTransport(
            dsn,
            schema=app.schema,
            name=f"wherry {purpose} {plan.name}",
            settings=app.settings,
            options=options,
            answer_seconds=answer_seconds,
        )
        stack.push_async_callback(transport.close)
        return transport

    def heard(queue: str) -> None:
        wakeups.heard(queue)
        maintenance.nudge()

    maintaining = session("maintenance")
    listener = Listener(
        dsn,
        schema=app.schema,
        name=f"wherry listener {plan.name}",
        settings=app.settings,
        heard=heard,
    )
    wakeups = Wakeups(
        leasing := session("leasing", BRIEF | NO_WAIT, BRIEF_SECONDS),
        instance=me.instance,
        queues=(EVERY_QUEUE,) if plan.queues is None else plan.queues,
        poll_seconds=settings.poll_every.total_seconds(),
        poll_seconds_listening=settings.poll_every_when_listening.total_seconds(),
        is_listening=lambda: listener.alive,
    )
    source = LocalSource(
        leasing,
        wakeups,
        worker=plan.name,
        queues=plan.queues,
        types=app.registry.names,
        lease_seconds=plan.lease_seconds,
    )
    maintenance = Maintenance(
        maintaining,
        look_seconds=lambda: (
            settings.look_every if listener.alive else min(settings.look_every, settings.poll_every)
        ).total_seconds(),
        queues=plan.queues,
        found_work=wakeups.wake,
    )
    beating = BlockingSession(
        dsn,
        schema=app.schema,
        name=f"wherry heartbeat {plan.name}",
        settings=app.settings,
        options=BRIEF | NO_WAIT,
        answer_seconds=plan.beat_answer_seconds,
    )
    worker = plan.worker(
        source,
        session("reporting", BRIEF, BRIEF_SECONDS),
        # Connects only where one does not keep up.
        reporting_too=session("reporting too", BRIEF, BRIEF_SECONDS),
    )
    try:
        # Known before the first look for parked tasks: some may have waited for these types.
        worker.direct(await maintaining.call(me))
    except Unavailable as error:
        log.warning("the database is out of reach at the start: %s", error)
    return _Parts(
        worker,
        plan.keeper(beating, worker, me),
        maintaining,
        LeaveWorker(me.instance),
        {"maintenance": maintenance.run} | ({"listener": listener.run} if settings.listen else {}),
    )


async def _remote(plan: _Plan, stack: AsyncExitStack) -> _Parts:
    """Compose a worker on a server, which listens for it and does the maintenance."""
    with needed():
        from wherry.transport.grpc.client import GrpcTransport
        from wherry.transport.grpc.client_blocking import GrpcTransport as BlockingGrpc
    address = read_server(plan.dsn)
    loop = asyncio.get_running_loop()
    me = plan.beat(str(uuid.uuid4()))

    def heard(directive: Directive) -> None:
        # Soon: it may end the very poll that told of it, and with it what came along.
        loop.call_soon(worker.direct, directive)

    def heard_in_thread(directive: Directive) -> None:
        with suppress(RuntimeError):
            # The loop may be closed.
            loop.call_soon_threadsafe(worker.direct, directive)

    # One channel for leasing and reporting, of which neither can hold up the other, and one for
    # the keeper's thread.
    transport = GrpcTransport(
        address,
        answer_seconds=BRIEF_SECONDS,
        worker=plan.name,
        instance=me.instance,
        heard=heard,
    )
    stack.push_async_callback(transport.close)
    source = RemoteSource(
        transport,
        worker=plan.name,
        instance=me.instance,
        queues=plan.queues,
        types=plan.app.registry.names,
        lease_seconds=plan.lease_seconds,
    )
    worker = plan.worker(source, transport)
    try:
        version = await transport.call(GetServer())
        await transport.call(me)
        log.debug("the server is of version %s", version)
    except Unavailable as error:
        log.warning("the server is out of reach at the start: %s", error)
    except PermissionDenied as error:
        # A heartbeat is of no queue, so the server cannot name any.
        queues = ", ".join(["*"] if plan.queues is None else plan.queues)
        raise PermissionDenied(f"{error}; this worker is for the queues {queues}") from error
    beating = BlockingGrpc(
        address,
        answer_seconds=plan.beat_answer_seconds,
        worker=plan.name,
        instance=me.instance,
        heard=heard_in_thread,
    )
    return _Parts(
        worker, plan.keeper(beating, worker, me), transport, LeaveWorker(me.instance), services={}
    )


async def _drained(worker: Worker, services: list[asyncio.Task[None]]) -> Summary:
    """Run the worker; a cancellation asks it to stop, and is passed on when it has.

    A service that ends by itself, which is a mistake of ours, stops the worker and is raised.
    """
    running = asyncio.create_task(worker.run(), name="worker")
    canceled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running, *services], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                worker.stop()
                await asyncio.wait([running])
        except asyncio.CancelledError as error:
            if canceled is None:
                worker.stop()
            else:
                worker.hurry()
            canceled = error
            services = []
    if canceled is not None:
        if not running.cancelled() and (failed := running.exception()) is not None:
            log.error("the worker failed", exc_info=without_rows(failed))
        raise canceled
    for service in services:
        if service.done() and not service.cancelled():
            service.result()
    return running.result()


async def _say_goodbye(transport: Transport, goodbye: LeaveWorker) -> None:
    try:
        async with asyncio.timeout(_LEAVE_WITHIN_SECONDS):
            await transport.call(goodbye)
    except (WherryError, TimeoutError) as error:
        log.debug("no goodbye: %s", error)


def _served(app: App, queues: Sequence[str] | None) -> tuple[str, ...] | None:
    if queues is None:
        return app.registry.queues
    names = asked_queues(queues)
    return None if "*" in names else tuple(dict.fromkeys(names))
