"""SIGTERM, SIGINT and SIGHUP: the first asks the worker to stop, a later one hurries it.

On Windows no event loop handles signals. Nobody could stop what runs there in good order, so it is
refused at its start.

A terminal and a process manager often forward the same Ctrl-C twice, so a second signal within a
second counts as the first.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic

from wherry.errors import ConfigError
from wherry.telemetry.loggers import logger

log = logger("wherry")

SIGNALS = (
    (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    if hasattr(signal, "SIGHUP")
    else (signal.SIGTERM, signal.SIGINT)
)
_SAME_WITHIN = 1.0


def handle(number: signal.Signals, received: Callable[[signal.Signals], object]) -> None:
    """Have the running loop call *received* when the signal comes.

    Raises ConfigError for a loop that handles none.
    """
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, received, number)
    except NotImplementedError:
        raise ConfigError(
            f"{type(loop).__name__} handles no signals, so nothing could tell what runs in it to"
            " stop: Wherry runs on Linux and macOS; on Windows run it in WSL or in a container"
        ) from None


@contextmanager
def handled(
    *, stop: Callable[[], object], hurry: Callable[[], object]
) -> Generator[None, None, None]:
    """Handle the signals inside this block, on the main thread's loop; elsewhere do nothing.

    Raises ConfigError for a loop that handles none.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    first_at: float | None = None

    def received(number: signal.Signals) -> None:
        nonlocal first_at
        now = monotonic()
        if first_at is None:
            first_at = now
            # A warning, so that it is seen without any logging set up: Ctrl-C must not seem lost.
            log.warning("%s received: finishing what is running; again to hurry", number.name)
            stop()
        elif now - first_at > _SAME_WITHIN:
            log.warning("%s received again: interrupting what is running", number.name)
            hurry()

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        handle(number, received)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            handler = before[number]
            if handler is not None:
                signal.signal(number, handler)
