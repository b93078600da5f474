"""Tells whether an event loop runs, and runs a coroutine in one of its own.

Such a loop is left in time, unlike that of asyncio.run, which waits for ever: for a task that
ignores its cancellation (a handler may have started one), and for the threads of the loop's
executor (`asyncio.to_thread`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from wherry.errors import BlockingInLoop, ConfigError
from wherry.telemetry.loggers import logger

R = TypeVar("R")

log = logger("wherry.worker")

_LEAVE_WITHIN_SECONDS = 2.0


def loop_is_running() -> bool:
    """Whether an event loop runs in this thread."""
    # Not get_running_loop(): every blocking call asks, and where none runs that one raises.
    return asyncio._get_running_loop() is not None  # pyright: ignore[reportPrivateUsage]


def refuse_in_loop(call: str) -> None:
    """Raise BlockingInLoop if an event loop runs in this thread, which *call* would stop."""
    if loop_is_running():
        raise BlockingInLoop(call, f"a{call}")


def refuse_unfit_loop() -> None:
    """Raise ConfigError if the running loop cannot wait for a connection to a database.

    It is what Windows' Proactor cannot do. Elsewhere it would look like a database that is away.
    """
    loop = type(asyncio.get_running_loop())
    if getattr(loop, "add_reader", None) is asyncio.AbstractEventLoop.add_reader:
        raise ConfigError(
            f"{loop.__name__} cannot wait for a connection to a database: run the program with"
            " `asyncio.run(main(), loop_factory=asyncio.SelectorEventLoop)`"
        )


def run_in_own_loop(main: Callable[[], Coroutine[Any, Any, R]], *, call: str) -> R:
    """Return what *main* returns. Raises BlockingInLoop, naming *call*, inside a running loop."""
    refuse_in_loop(call)
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main())
    finally:
        try:
            loop.run_until_complete(_leave(loop))
        finally:
            asyncio.set_event_loop(None)
            # Without waiting for the executor's threads.
            loop.close()


async def _leave(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        done, pending = await asyncio.wait(tasks, timeout=_LEAVE_WITHIN_SECONDS)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                message = f"{task.get_name()} failed while its loop was ending"
                loop.call_exception_handler({"message": message, "exception": error, "task": task})
        if pending:
            names = ", ".join(sorted(task.get_name() for task in pending))
            log.warning("left behind, since they ignore their cancellation: %s", names)
    try:
        async with asyncio.timeout(_LEAVE_WITHIN_SECONDS):
            await loop.shutdown_asyncgens()
    except TimeoutError:
        log.warning("left behind: async generators that do not close")
