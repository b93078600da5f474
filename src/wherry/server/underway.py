"""What a door has begun for its callers, and goes on with if they leave.

A statement that is given up in the middle costs more than one whose answer nobody hears.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


class UnderWay:
    """The calls of one door."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        """Begin *work*, whoever waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def to_the_end(self, work: Coroutine[Any, Any, R]) -> R:
        """Return what *work* gives; it goes on if this is canceled."""
        return await asyncio.shield(self.begin(work))

    async def settle(self, *, within_seconds: float) -> None:
        """Wait for what goes on."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_seconds)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Told to the caller, if there is one still.
            task.exception()
