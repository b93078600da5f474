"""Decides when an idle worker looks for tasks again.

Enqueues notify only if somebody is known to wait. A worker that comes to wait says so, and looks
again, with short pauses, until every transaction that may have enqueued without seeing it has
ended. From then on it sleeps until it is notified; the poll is the backstop and the truth. While
tasks come often, also one that keeps up and has nothing to do between any two of them does not say
that it waits, but looks again in a moment: `domain/arrivals.py` decides.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic

from wherry.commands.workers import (
    EVERY_QUEUE,
    KeepWaiting,
    StopWaiting,
    TransactionsEnded,
    WaitForTasks,
)
from wherry.domain.arrivals import Arrivals
from wherry.domain.lease import Lease
from wherry.domain.settling import Settling
from wherry.transport.base import Transport

_KNOWN_FOR_SECONDS = 30.0


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
        self._heard_of: set[str] = set()
        self._arrivals = Arrivals(monotonic())
        # Until then the database may know us, and until then it surely does.
        self._asked_until = self._known_until = 0.0
        self._settling: Settling | None = None

    def wake(self) -> None:
        """End the present or the next pause."""
        self._event.set()

    def heard(self, queue: str) -> None:
        """A notification has come; of the empty name: any may have been lost."""
        if not queue:
            # So may what the database knew of us: it may be another one by now.
            self._known_until = 0.0
            self.wake()
        elif queue in self._queues or EVERY_QUEUE in self._queues:
            self._arrivals.heard(monotonic())
            # It may be meant for others, while we look again in a moment by ourselves.
            if self._arrivals.notified:
                self._heard_of.add(queue)
                self.wake()

    def heard_of(self) -> set[str]:
        """Return the queues that we were notified of since this was last called."""
        heard, self._heard_of = self._heard_of, set()
        return heard

    def looked(self, leases: Sequence[Lease]) -> None:
        """A look has found these."""
        self._arrivals.looked(monotonic(), leases)

    async def pause(self, *, at_most: float = inf) -> None:
        """Return when it is worth leasing again, in *at_most* seconds. Raises Unavailable."""
        if not self._is_listening():
            await self._leave()
            await self._sleep(self._poll_seconds, at_most)
            return
        now = monotonic()
        if not self._arrivals.should_be_notified(now):
            await self._leave()
            await self._sleep(self._arrivals.pause, at_most)
            return
        if now >= self._known_until:
            await self._ask(now)
            return
        if now > self._known_until - _KNOWN_FOR_SECONDS / 2:
            await self._transport.call(
                KeepWaiting(self._instance, self._queues, _KNOWN_FOR_SECONDS)
            )
            self._asked_until = self._known_until = now + _KNOWN_FOR_SECONDS
        if self._settling is None:
            await self._sleep(self._poll_seconds_listening, at_most)
            return
        ended = await self._transport.call(TransactionsEnded(self._settling.horizon))
        if self._settling.is_over(ended=ended):
            self._settling = None
            return
        await self._sleep(self._settling.next_pause(), at_most)

    async def gather(self) -> None:
        """Return when it is worth leasing again after a look that took all there was."""
        seconds = self._arrivals.gathers(monotonic())
        if seconds > 0 and self._is_listening():
            await self._sleep(seconds, inf)
        else:
            await asyncio.sleep(0)

    async def busy(self) -> None:
        """There is work enough: no wake-ups are wanted. Raises Unavailable."""
        await self._leave()

    async def _ask(self, now: float) -> None:
        # From here on an enqueue may notify us, whatever becomes of the answer.
        self._asked_until = now + _KNOWN_FOR_SECONDS
        self._arrivals.asked(now)
        horizon = await self._transport.call(
            WaitForTasks(self._instance, self._queues, _KNOWN_FOR_SECONDS)
        )
        self._known_until = self._asked_until
        self._settling = Settling(horizon, self._poll_seconds)

    async def _leave(self) -> None:
        self._known_until = 0.0
        self._settling = None
        if self._asked_until > monotonic():
            await self._transport.call(StopWaiting(self._instance, self._queues))
        self._asked_until = 0.0
        self._arrivals.asks_no_more(monotonic())

    async def _sleep(self, seconds: float, at_most: float) -> None:
        # Jittered, so that many idle workers do not look in step.
        seconds = min(seconds * random.uniform(0.8, 1.0), at_most)
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
        finally:
            self._event.clear()
