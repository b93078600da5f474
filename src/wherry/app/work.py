"""Composes a worker in this process: its connections, its keeper, its listener, its maintenance.

Besides the App's own pool a worker holds at most five connections: leasing, reporting, maintenance,
the heartbeat and the listener. None of them is shared with handlers, so no handler can keep a
heartbeat waiting. A worker that has only a server holds two: leasing and reporting, the heartbeat.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from datetime import timedelta

from wherry.app.app import App
from wherry.app.asked import asked_lease_seconds, asked_queues
from wherry.app.composed import Plan, compose_local, compose_remote
from wherry.app.loop import refuse_unfit_loop
from wherry.commands.workers import LeaveWorker
from wherry.config import WorkerSettings
from wherry.domain.durations import Duration, seconds_from
from wherry.domain.options import check_flag, check_integer, check_name
from wherry.dsn import is_server, read_server
from wherry.errors import (
    ConfigError,
    InvalidOption,
    WherryError,
)
from wherry.telemetry.loggers import logger
from wherry.transport.base import Transport
from wherry.transport.faults import without_rows
from wherry.worker.signals import handled
from wherry.worker.summary import Summary
from wherry.worker.worker import Worker

log = logger("wherry.worker")

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
    if not app.through_server:
        refuse_unfit_loop()
    served = _served(app, queues)
    dsn = await asyncio.to_thread(app.prepared_dsn)
    if name is None:
        name = f"{socket.gethostname()}-{os.getpid()}"
    check_name(name, option="name")
    plan = Plan(app, dsn, name, served, settings, until_empty)
    async with AsyncExitStack() as stack:
        compose = compose_remote if is_server(dsn) else compose_local
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
                with nullcontext() if app.meters is None else app.meters.asking(parts.readings):
                    return await _drained(parts.worker, services)
        finally:
            parts.keeper.stop()
            for service in services:
                service.cancel()
            if services:
                await asyncio.wait(services, timeout=_LEAVE_WITHIN_SECONDS)
            # First, or its last beat could make known again who has said goodbye.
            await asyncio.to_thread(lambda: parts.keeper.join(timeout=_LEAVE_WITHIN_SECONDS))
            await _say_goodbye(parts.transport, parts.goodbye)


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
