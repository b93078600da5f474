"""Timers of a desk: for each queue whose rate is limited, when its next task may start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from wherry.worker.starts import Starts


class StartTimers:
    """One timer a queue at most; *may_start* is called with the queue whose time has come."""

    def __init__(self, starts: Starts, *, may_start: Callable[[Iterable[str]], object]) -> None:
        self._starts = starts
        self._may_start = may_start
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def doubt(self) -> None:
        """Some limit was changed."""
        self._starts.doubt()

    async def wait(self, look_at: float) -> None:
        """Ask when the next tasks may start, after a look that began then. Raises Unavailable."""
        loop = asyncio.get_running_loop()
        for queue, seconds in (await self._starts.after(look_at)).items():
            # The rate may be another one by now: who waits for tomorrow may start in a second.
            if timer := self._timers.pop(queue, None):
                timer.cancel()
            self._timers[queue] = loop.call_later(seconds, self._come, queue)

    def cancel(self) -> None:
        """Wait for none of them any more: some may be a day away, and hold all they call."""
        while self._timers:
            self._timers.popitem()[1].cancel()

    def _come(self, queue: str) -> None:
        del self._timers[queue]
        self._may_start([queue])
