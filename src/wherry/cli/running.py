"""Runs a worker as this process, and ends the process when the worker has ended.

A thread cannot be stopped, and neither can an async handler that swallows its cancellation. Both
would keep Python from exiting, so the worker's word counts: once it has said what it left behind,
the process goes, whoever is still running in it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.worker.worker import Summary

log = logging.getLogger("wherry.worker")

# How long what is left may take to end, when the worker has left nothing behind: what handlers
# started beside their tasks, and what was registered for the exit.
_WIND_UP_SECONDS = 1.0
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


def run(app: App, wanted: Run) -> Summary:
    """Run a worker in an event loop of its own until it has ended.

    Not by asyncio.run, which waits at its end for every handler that will not stop.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    summary = loop.run_until_complete(
        app.awork(
            wanted.queues,
            concurrency=wanted.concurrency,
            name=wanted.name,
            lease_for=wanted.lease_for,
            shutdown_timeout=wanted.shutdown_timeout,
            until_empty=wanted.until_empty,
            listen=wanted.listen,
        )
    )
    if not summary.abandoned:
        loop.run_until_complete(_wind_up())
        app.close()
    return summary


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
            while os.read(fd, 1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="wherry-supervisor-watch", daemon=True).start()


async def _wind_up() -> None:
    """Cancel what handlers started and left in the loop; what ignores that is left to the exit."""
    loop = asyncio.get_running_loop()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_WIND_UP_SECONDS)
    with suppress(TimeoutError):
        async with asyncio.timeout(_WIND_UP_SECONDS):
            await loop.shutdown_asyncgens()
