"""Decides when an idle worker looks for tasks again.

Enqueues notify only if somebody is known to wait, so that a busy system never notifies. A worker
that comes to wait says so, and looks again, with short pauses, until every transaction that may
have enqueued without seeing it has ended. From then on it sleeps until it is notified; the poll is
the backstop and the truth.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from time import monotonic

from wherry.commands.workers import StopWaiting, TransactionsEnded, WaitForTasks
from wherry.transport.base import Transport

_KNOWN_FOR = 30.0
_FIRST_PAUSE = 0.005


class Wakeups:
    """The waiting of one worker."""

    def __init__(
        self,
        transport: Transport,
        *,
        instance: str,
        queues: tuple[str, ...],
        poll_seconds: float,
        poll_seconds_listening: float,
        is_listening: Callable[[], bool],
    ) -> None:
        self._transport = transport
        self._instance = instance
        self._queues = queues
        self._poll_seconds = poll_seconds
        self._poll_seconds_listening = poll_seconds_listening
        self._is_listening = is_listening
        self._event = asyncio.Event()
        self._known_until = 0.0
        self._horizon: int | None = None
        self._looks = 0
        self._pause = _FIRST_PAUSE

    def wake(self) -> None:
        """End the present or the next pause."""
        self._event.set()

    async def pause(self) -> None:
        """Return when it is worth leasing again. Raises Unavailable."""
        if not self._is_listening():
            self._known_until = 0.0
            await self._sleep(self._poll_seconds)
            return
        now = monotonic()
        if now > self._known_until - _KNOWN_FOR / 2:
            horizon = await self._transport.call(
                WaitForTasks(self._instance, self._queues, _KNOWN_FOR)
            )
            was_known = now < self._known_until
            self._known_until = now + _KNOWN_FOR
            if not was_known:
                self._horizon, self._looks, self._pause = horizon, 0, _FIRST_PAUSE
                return
        if self._horizon is None:
            await self._sleep(self._poll_seconds_listening)
            return
        # An enqueue that had not seen us, and had no transaction id yet, is over within two looks.
        self._looks += 1
        if await self._transport.call(TransactionsEnded(self._horizon)) and self._looks > 2:
            self._horizon = None
            return
        await self._sleep(self._pause)
        self._pause = min(self._pause * 2, self._poll_seconds)

    async def busy(self) -> None:
        """There is work enough: no wake-ups are wanted. Raises Unavailable."""
        if self._known_until > monotonic():
            self._known_until = 0.0
            self._horizon = None
            await self._transport.call(StopWaiting(self._instance, self._queues))

    async def _sleep(self, seconds: float) -> None:
        try:
            # Jittered, so that many idle workers do not look in step.
            async with asyncio.timeout(seconds * random.uniform(0.8, 1.0)):
                await self._event.wait()
        except TimeoutError:
            return
        finally:
            self._event.clear()
