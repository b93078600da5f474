"""The parts of a worker: what it leases by, reports by and beats by, on a database or on a server.

A worker on a database holds a connection for each purpose, so that none can hold up another.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from wherry.app.app import App
from wherry.commands.declaring import DeclareSchedules
from wherry.commands.remote import GetServer
from wherry.commands.workers import EVERY_QUEUE, BeatWorker, LeaveWorker
from wherry.config import WorkerSettings
from wherry.doctor.guard import require_fit
from wherry.domain.worker import Directive
from wherry.dsn import read_server
from wherry.errors import PermissionDenied, Unavailable
from wherry.maintenance.declaring import keep_declaring
from wherry.maintenance.service import Maintenance
from wherry.migrations.records import own_version
from wherry.telemetry.loggers import logger
from wherry.telemetry.readings import Reading
from wherry.transport.base import Transport
from wherry.transport.bounded import ANSWER_SECONDS
from wherry.transport.connect import BRIEF, BRIEF_SECONDS, NO_WAIT
from wherry.transport.grpc import needed
from wherry.transport.listen import Listener
from wherry.transport.passing import LONG, LONG_SECONDS, PassingSession
from wherry.transport.session import SessionTransport
from wherry.transport.session_blocking import SessionTransport as BlockingSession
from wherry.transport.timed import Timed, TimedBlocking
from wherry.worker.keeper import Beats, Keeper
from wherry.worker.measured import readings_of
from wherry.worker.remote import RemoteSource
from wherry.worker.source import LocalSource, Source
from wherry.worker.wakeups import Wakeups
from wherry.worker.worker import Worker

log = logger("wherry.worker")

_BLOCKED_AFTER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker is made from."""

    app: App
    dsn: str
    name: str
    queues: tuple[str, ...] | None
    settings: WorkerSettings
    until_empty: bool

    @property
    def lease_seconds(self) -> float:
        """How long a lease lasts."""
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
            slots=self.settings.concurrency,
            version=own_version().removeprefix("wherry "),
        )

    def declares(self, instance: str) -> DeclareSchedules | None:
        """Return what this worker says of the schedules in its code; None: there are none."""
        timetable = tuple(self.app.timetable)
        return DeclareSchedules(timetable, instance) if timetable else None

    def worker(
        self, source: Source, reporting: Transport, *, reporting_too: Transport | None = None
    ) -> Worker:
        """Return the worker itself; *reporting_too* is used where reports pile up."""
        tracing = self.app.tracing
        return Worker(
            self.app,
            self.app.registry,
            source=source,
            reporting=reporting,
            reporting_too=reporting_too,
            name=self.name,
            settings=self.settings,
            until_empty=self.until_empty,
            around=None if tracing is None else partial(tracing.running, worker=self.name),
        )

    def keeper(
        self,
        transport: Beats,
        worker: Worker,
        me: BeatWorker,
        *,
        deaf_seconds: Callable[[], float | None] = lambda: None,
    ) -> Keeper:
        """Return what keeps its leases alive, and tells for how long no notification was heard."""
        meters = self.app.meters
        return Keeper(
            transport if meters is None else TimedBlocking(transport, meters),
            worker.held,
            me=me,
            lease_seconds=self.lease_seconds,
            blocked_after=_BLOCKED_AFTER_SECONDS,
            call_soon=asyncio.get_running_loop().call_soon_threadsafe,
            tell=worker.news,
            deaf_seconds=deaf_seconds,
        )

    @property
    def beat_answer_seconds(self) -> float:
        """How long the answer to a beat is waited for."""
        # A beat that comes later than this comes too late for some lease.
        return max(2.0, self.lease_seconds / 2)


@dataclass(frozen=True, slots=True)
class Parts:
    """A worker with all that it needs; *goodbye* goes over *transport* at its end."""

    worker: Worker
    keeper: Keeper
    transport: Transport
    goodbye: LeaveWorker
    services: Mapping[str, Callable[[], Coroutine[Any, Any, None]]]
    is_deaf: Callable[[], bool] | None = None

    def readings(self) -> list[Reading]:
        """Return what can be told of this worker now."""
        return readings_of(self.worker, self.keeper, is_deaf=self.is_deaf)


async def compose_local(plan: Plan, stack: AsyncExitStack) -> Parts:
    """Compose a worker on the database itself."""
    app, dsn, settings = plan.app, plan.dsn, plan.settings
    allow_unsafe = settings.allow_unsafe_database
    await asyncio.to_thread(lambda: require_fit(dsn, schema=app.schema, allow_unsafe=allow_unsafe))
    me = plan.beat(str(uuid.uuid4()))

    def session(
        purpose: str,
        options: dict[str, str] | None = None,
        answer_seconds: float = ANSWER_SECONDS,
        kind: type[SessionTransport] = SessionTransport,
    ) -> Transport:
        transport = kind(
            dsn,
            schema=app.schema,
            name=f"wherry {purpose} {plan.name}",
            settings=app.settings,
            options=options,
            answer_seconds=answer_seconds,
        )
        stack.push_async_callback(transport.close)
        return transport if app.meters is None else Timed(transport, app.meters)

    def heard(queue: str) -> None:
        source.heard(queue)
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
        declares=plan.declares(me.instance),
        recounting=session("recount", LONG, LONG_SECONDS, PassingSession),
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
        await maintenance.begin()
    except Unavailable as error:
        log.warning("the database is out of reach at the start: %s", error)
    return Parts(
        worker,
        plan.keeper(
            beating,
            worker,
            me,
            deaf_seconds=listener.deaf_seconds if settings.listen else lambda: None,
        ),
        maintaining,
        LeaveWorker(me.instance),
        {"maintenance": maintenance.run} | ({"listener": listener.run} if settings.listen else {}),
        is_deaf=(lambda: not listener.alive) if settings.listen else None,
    )


async def compose_remote(plan: Plan, stack: AsyncExitStack) -> Parts:
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
    channel = GrpcTransport(
        address,
        answer_seconds=BRIEF_SECONDS,
        worker=plan.name,
        instance=me.instance,
        heard=heard,
    )
    stack.push_async_callback(channel.close)
    meters = plan.app.meters
    transport = channel if meters is None else Timed(channel, meters)
    source = RemoteSource(
        transport,
        worker=plan.name,
        instance=me.instance,
        queues=plan.queues,
        types=plan.app.registry.names,
        lease_seconds=plan.lease_seconds,
    )
    worker = plan.worker(source, transport)
    declares = plan.declares(me.instance)
    services: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
    if declares is not None:
        services["schedules"] = partial(keep_declaring, transport, declares.parts())
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
    goodbye = LeaveWorker(me.instance)
    return Parts(worker, plan.keeper(beating, worker, me), transport, goodbye, services)
