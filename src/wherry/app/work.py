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
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta

from wherry.app.app import App
from wherry.commands.workers import EVERY_QUEUE, BeatWorker, LeaveWorker
from wherry.config import WorkerSettings
from wherry.domain.durations import seconds_from
from wherry.domain.options import check_name
from wherry.errors import ConfigError, Unavailable
from wherry.maintenance.service import Maintenance
from wherry.migrations import check
from wherry.transport.listen import Listener
from wherry.transport.session import SessionTransport
from wherry.transport.session_blocking import SessionTransport as BlockingSession
from wherry.worker.keeper import Keeper
from wherry.worker.signals import handled
from wherry.worker.wakeups import Wakeups
from wherry.worker.worker import Summary, Worker

log = logging.getLogger("wherry.worker")

# A lost lease is leased again, so its commit need not wait for the disk. Outcomes always do.
_NO_WAIT = {"synchronous_commit": "off"}
_BLOCKED_AFTER_SECONDS = 1.0


def worker_settings(
    *,
    concurrency: int,
    lease_for: timedelta | float,
    shutdown_timeout: timedelta | float,
    listen: bool,
) -> WorkerSettings:
    """Return checked settings. Raises ConfigError or InvalidOption."""
    if not 1 <= concurrency <= 10_000:
        raise ConfigError(f"concurrency={concurrency}: give a number of slots from 1 to 10000")
    lease_seconds = seconds_from(lease_for, option="lease_for")
    if not 1 <= lease_seconds <= 86_400:
        raise ConfigError(f"lease_for={lease_for}: give from 1 s to a day")
    return replace(
        WorkerSettings(),
        concurrency=concurrency,
        lease_for=timedelta(seconds=lease_seconds),
        shutdown_timeout=timedelta(
            seconds=seconds_from(shutdown_timeout, option="shutdown_timeout")
        ),
        listen=listen,
    )


async def run_worker(
    app: App,
    *,
    queues: Sequence[str] | None,
    settings: WorkerSettings,
    name: str | None = None,
    until_empty: bool = False,
) -> Summary:
    """Run a worker until it is stopped; canceling this drains it.

    *queues*: None for those of the registered types, `["*"]` for every queue there is.
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
    name = name or f"{socket.gethostname()}-{os.getpid()}"
    me = BeatWorker(
        instance=str(uuid.uuid4()),
        name=name,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=served,
        types=app.registry.names,
    )
    async with AsyncExitStack() as stack:

        def session(purpose: str, options: dict[str, str] | None = None) -> SessionTransport:
            transport = SessionTransport(
                dsn,
                schema=app.schema,
                name=f"wherry {purpose} {name}",
                settings=app.settings,
                options=options,
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
            leasing := session("leasing", _NO_WAIT),
            instance=me.instance,
            queues=(EVERY_QUEUE,) if served is None else served,
            poll_seconds=settings.poll_every.total_seconds(),
            poll_seconds_listening=settings.poll_every_when_listening.total_seconds(),
            is_listening=lambda: listener.alive,
        )
        worker = Worker(
            app,
            app.registry,
            leasing=leasing,
            reporting=session("reporting"),
            wakeups=wakeups,
            queues=served,
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
                options=_NO_WAIT,
            ),
            worker.held,
            me=me,
            lease_seconds=settings.lease_for.total_seconds(),
            blocked_after=_BLOCKED_AFTER_SECONDS,
            call_soon=loop.call_soon_threadsafe,
            tell=worker.news,
            given_up=worker.given_up,
        )
        services = [asyncio.create_task(maintenance.run(), name="maintenance")]
        if settings.listen:
            services.append(asyncio.create_task(listener.run(), name="listener"))
        keeper.start()
        log.info(
            "worker %s: %d slots, queues %s, %d types",
            name,
            settings.concurrency,
            "*" if served is None else ", ".join(served),
            len(app.registry),
        )
        try:
            with handled(stop=worker.stop, hurry=worker.hurry):
                return await _drained(worker)
        finally:
            for service in services:
                service.cancel()
            await asyncio.wait(services, timeout=2.0)
            await asyncio.to_thread(lambda: keeper.stop(timeout=2.0))
            try:
                await asyncio.wait_for(maintaining.call(LeaveWorker(me.instance)), 2.0)
            except (Unavailable, TimeoutError):
                log.debug("no goodbye: the database is out of reach")


async def _drained(worker: Worker) -> Summary:
    """Run the worker; a cancellation asks it to stop and is passed on when it has."""
    running = asyncio.create_task(worker.run(), name="worker")
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        worker.stop()
        await asyncio.wait([running])
        raise


def _served(app: App, queues: Sequence[str] | None) -> tuple[str, ...] | None:
    if queues is None:
        return app.registry.queues
    if isinstance(queues, str):
        raise ConfigError(f"queues={queues!r}: give a list of names")
    if "*" in queues:
        return None
    return tuple(dict.fromkeys(check_name(queue, option="queue") for queue in queues))
