"""How late a busy machine is, for tests that ask whether somebody else is."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

_TICK_SECONDS = 0.01


class Late:
    """The longest that a wait of a moment took too long, in seconds."""

    def __init__(self) -> None:
        self.longest = 0.0

    def ticked(self, begun: float) -> None:
        self.longest = max(self.longest, time.monotonic() - begun - _TICK_SECONDS)


@asynccontextmanager
async def late_loop() -> AsyncIterator[Late]:
    """Watch the loop: what holds it up, and what holds the machine up."""
    late = Late()

    async def watch() -> None:
        while True:
            begun = time.monotonic()
            try:
                await asyncio.sleep(_TICK_SECONDS)
            finally:
                late.ticked(begun)

    watching = asyncio.create_task(watch(), name="lateness")
    try:
        yield late
    finally:
        watching.cancel()
        await asyncio.wait([watching])


@contextmanager
def late_machine() -> Iterator[Late]:
    """Watch a thread beside it, which only the machine holds up."""
    late, ended = Late(), threading.Event()

    def watch() -> None:
        while not ended.is_set():
            begun = time.monotonic()
            ended.wait(_TICK_SECONDS)
            late.ticked(begun)

    thread = threading.Thread(target=watch, name="lateness")
    thread.start()
    try:
        yield late
    finally:
        ended.set()
        thread.join()
