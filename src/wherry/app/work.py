"""Composes a worker in this process: its connections, its keeper, its listener, its maintenance.

Besides the App's own pool a worker holds at most five connections: leasing, reporting, maintenance,
the heartbeat and the listener. None of them is shared with handlers, so no handler can keep a
heartbeat waiting.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from datetime import timedelta

from wherry.app.app import App
from wherry.app.asked import asked_lease_seconds, asked_queues
from wherry.commands.workers import EVERY_QUEUE, BeatWorker, LeaveWorker
from wherry.config import WorkerSettings
from wherry.domain.durations import Duration, seconds_from
from wherry.domain.options import check_flag, check_integer, check_name
from wherry.errors import ConfigError, InvalidOption, Unavailable
from wherry.maintenance.service import Maintenance
from wherry.migrations import check
from wherry.transport.bounded import ANSWER_SECONDS
from wherry.transport.listen import Listener
from wherry.transport.session import SessionTransport
from wherry.transport.session_blocking import SessionTransport as BlockingSession
from wherry.worker.keeper import Keeper
from wherry.worker.signals import handled
from wherry.worker.source import LocalSource
from wherry.worker.wakeups import Wakeups
from wherry.worker.worker import Summary, Worker

log = logging.getLogger("wherry.worker")

# A lost lease is leased again, so its commit need not wait for the disk. Outcomes always do.
_NO_WAIT = {"synchronous_commit": "off"}
# Statements that are worth more soon than late: a server that cannot answer them is left.
_BRIEF = {"statement_timeout": "15s"}
_BRIEF_SECONDS = 20.0
_BLOCKED_AFTER_SECONDS = 1.0
_LEAVE_WITHIN_SECONDS = 1.0


def worker_settings(
    *,
    concurrency: int,
    lease_for: Duration,
    shutdown_timeout: Duration,
    listen: bool,
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
    dsn = await asyncio.to_thread(lambda: app.dsn)
    await asyncio.to_thread(lambda: check(dsn, schema=app.schema))
    if name is None:
        name = f"{socket.gethostname()}-{os.getpid()}"
    check_name(name, option="name")
    me = BeatWorker(
        instance=str(uuid.uuid4()),
        name=name,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=served,
        types=app.registry.names,
    )
    async with AsyncExitStack() as stack:

        def session(
            purpose: str,
            options: dict[str, str] | None = None,
            answer_seconds: float = ANSWER_SECONDS,
        ) -> SessionTransport:
            transport = SessionTransport(
                dsn,
                schema=app.schema,
                name=f"wherry {purpose} {name}",
                settings=app.settings,
                options=options,
                answer_seconds=answer_seconds,
            )
            stack.push_async_callback(transport.close)
            return transport

        def heard(_queue: str) -> None:
            wakeups.wake()
            maintenance.nudge()

        loop = asyncio.get_running_loop()
        maintaining = session("maintenance")
        listener = Listener(
            dsn,
            schema=app.schema,
            name=f"wherry listener {name}",
            settings=app.settings,
            heard=heard,
        )
        wakeups = Wakeups(
            leasing := session("leasing", _BRIEF | _NO_WAIT, _BRIEF_SECONDS),
            instance=me.instance,
            queues=(EVERY_QUEUE,) if served is None else served,
            poll_seconds=settings.poll_every.total_seconds(),
            poll_seconds_listening=settings.poll_every_when_listening.total_seconds(),
            is_listening=lambda: listener.alive,
        )
        worker = Worker(
            app,
            app.registry,
            source=LocalSource(
                leasing,
                wakeups,
                worker=name,
                queues=served,
                types=app.registry.names,
                lease_seconds=settings.lease_for.total_seconds(),
            ),
            reporting=session("reporting", _BRIEF, _BRIEF_SECONDS),
            name=name,
            settings=settings,
            until_empty=until_empty,
        )
        maintenance = Maintenance(
            maintaining,
            reap_seconds=settings.reap_every.total_seconds(),
            promote_seconds=lambda: (
                settings.poll_every_when_listening if listener.alive else settings.poll_every
            ).total_seconds(),
            queues=served,
            found_work=wakeups.wake,
        )
        keeper = Keeper(
            BlockingSession(
                dsn,
                schema=app.schema,
                name=f"wherry heartbeat {name}",
                settings=app.settings,
                options=_BRIEF | _NO_WAIT,
                # A beat that comes later than this comes too late for some lease.
                answer_seconds=max(2.0, settings.lease_for.total_seconds() / 2),
            ),
            worker.held,
            me=me,
            lease_seconds=settings.lease_for.total_seconds(),
            blocked_after=_BLOCKED_AFTER_SECONDS,
            call_soon=loop.call_soon_threadsafe,
            tell=worker.news,
        )
        try:
            # Known before the first look for parked tasks: some may have waited for these types.
            await maintaining.call(me)
        except Unavailable as error:
            log.warning("the database is out of reach at the start: %s", error)
        services = [asyncio.create_task(maintenance.run(), name="maintenance")]
        if settings.listen:
            services.append(asyncio.create_task(listener.run(), name="listener"))
        keeper.start()
        try:
            with handled(stop=worker.stop, hurry=worker.hurry) if signals else nullcontext():
                # Whoever reads this may send a signal right away: it is handled by now.
                log.info(
                    "worker %s: %d slots, queues %s, %d types",
                    name,
                    settings.concurrency,
                    "*" if served is None else ", ".join(served),
                    len(app.registry),
                )
                return await _drained(worker, services)
        finally:
            keeper.stop()
            for service in services:
                service.cancel()
            await asyncio.wait(services, timeout=_LEAVE_WITHIN_SECONDS)
            await _say_goodbye(maintaining, me.instance)
            await asyncio.to_thread(lambda: keeper.join(timeout=_LEAVE_WITHIN_SECONDS))


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
            log.error("the worker failed", exc_info=failed)
        raise canceled
    for service in services:
        if service.done() and not service.cancelled():
            service.result()
    return running.result()


async def _say_goodbye(transport: SessionTransport, instance: str) -> None:
    try:
        async with asyncio.timeout(_LEAVE_WITHIN_SECONDS):
            await transport.call(LeaveWorker(instance))
    except (Unavailable, TimeoutError):
        log.debug("no goodbye: the database is out of reach")


def _served(app: App, queues: Sequence[str] | None) -> tuple[str, ...] | None:
    if queues is None:
        return app.registry.queues
    names = asked_queues(queues)
    return None if "*" in names else tuple(dict.fromkeys(names))
