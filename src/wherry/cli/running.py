"""Runs a worker as this process, and ends the process when the worker has ended.

A thread cannot be stopped, and would keep Python from exiting. So the worker's word counts: once it
has said what it left behind, the process goes, whoever is still running in it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from wherry.telemetry.loggers import logger

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.worker.summary import Summary

log = logger("wherry.worker")

# How long what was registered for the exit may take.
_EXIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a worker is to run; the words are those of `App.work`."""

    queues: Sequence[str] | None
    concurrency: int
    name: str | None
    lease_for: timedelta
    shutdown_timeout: timedelta
    until_empty: bool
    listen: bool
    allow_unsafe_database: bool
    # Runs in the worker's loop, from before it until after it.
    beside: Callable[[], AbstractAsyncContextManager[object]] | None = None


def run(app: App, wanted: Run) -> Summary:
    """Run a worker in an event loop of its own until it has ended."""
    from wherry.worker.garbage import collect_rarely

    collect_rarely()
    summary = _work(app, wanted) if wanted.beside is None else _work_beside(app, wanted)
    if not summary.abandoned:
        app.close()
    return summary


def _work(app: App, wanted: Run) -> Summary:
    return app.work(
        wanted.queues,
        concurrency=wanted.concurrency,
        name=wanted.name,
        lease_for=wanted.lease_for,
        shutdown_timeout=wanted.shutdown_timeout,
        until_empty=wanted.until_empty,
        listen=wanted.listen,
        allow_unsafe_database=wanted.allow_unsafe_database,
    )


def _work_beside(app: App, wanted: Run) -> Summary:
    from wherry.app.loop import run_in_own_loop
    from wherry.app.work import run_worker, worker_settings

    settings = worker_settings(
        concurrency=wanted.concurrency,
        lease_for=wanted.lease_for,
        shutdown_timeout=wanted.shutdown_timeout,
        listen=wanted.listen,
        allow_unsafe_database=wanted.allow_unsafe_database,
    )

    async def work() -> Summary:
        try:
            async with wanted.beside() if wanted.beside is not None else nullcontext():
                return await run_worker(
                    app,
                    queues=wanted.queues,
                    settings=settings,
                    name=wanted.name,
                    until_empty=wanted.until_empty,
                    signals=True,
                )
        finally:
            await app.aclose_loop()

    return run_in_own_loop(work, call="work")


def leave(code: int, *, at_once: bool) -> None:
    """See to it that this process ends with *code*; with *at_once* it does not come back.

    Without, it ends by itself and runs what was registered for its exit, for 5 s at most.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        # It was replaced by a handler's own, or closed.
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if at_once:
        os._exit(code)
    watch = threading.Timer(_EXIT_SECONDS, os._exit, [code])
    watch.daemon = True
    watch.start()


def stop_with(fd: int) -> None:
    """Stop the worker of this process, as SIGTERM does, when the other end of the pipe is closed.

    That end is the supervisor's: the kernel closes it however the supervisor died.
    """

    def watch() -> None:
        with suppress(OSError):
            # Of no use to the programs that handlers start.
            os.set_inheritable(fd, False)
        with suppress(OSError):
            while os.read(fd, 1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="wherry-supervisor-watch", daemon=True).start()
