"""Tells the database which queues are waited for here, so that an enqueue there notifies.

The server's form of `worker/wakeups.py`, and one for all who wait: one statement marks every queue
that somebody waits for. A transaction that was under way when a mark was made may not have seen it;
so until all of those have ended, a new queue is looked at again and again. Then it is *settled*:
whatever comes is heard of. The look every few seconds is the backstop and the truth. A queue to
which tasks come often is not marked, but looked at again in a moment (`domain/arrivals.py`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from time import monotonic
from typing import Final, TypeVar

from wherry.commands.base import Command
from wherry.commands.queues import ListReadyOf, ListReadyQueues
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
from wherry.telemetry.loggers import logger
from wherry.transport.base import Transport
from wherry.transport.faults import is_trouble, one_line, without_rows
from wherry.transport.patience import SOON_SECONDS, Patience

R = TypeVar("R")

log = logger("wherry.server")

_KNOWN_FOR_SECONDS: Final = 30.0
_LONGEST_PAUSE_SECONDS: Final = 1.0
# Without a waiter for so long, while there are tasks: the workers are busy, and need no wake-ups.
_BUSY_AFTER_SECONDS: Final = 2.0
# A mark that ends so soon is not relied on: a statement may take a while to see it.
_MARGIN_SECONDS: Final = 5.0
_MOST_REMEMBERED: Final = 10_000


class Marks:
    """The waiting of one server. `EVERY_QUEUE` is waited for by who polls `*`."""

    def __init__(
        self,
        transport: Transport,
        *,
        instance: str,
        waited: Callable[[], Collection[str]],
        found: Callable[[Iterable[str]], object],
        is_listening: Callable[[], bool],
        look_seconds: float,
        look_seconds_listening: float,
    ) -> None:
        """*waited*: the queues of those who wait now. *found* is told which of them have tasks."""
        self._transport = transport
        self._instance = instance
        self._waited = waited
        self._found = found
        self._is_listening = is_listening
        self._look_seconds = look_seconds
        self._look_seconds_listening = look_seconds_listening
        self._known_until: dict[str, float] = {}
        self._left_at: dict[str, float] = {}
        self._arrivals: dict[str, Arrivals] = {}
        # When to look at those that are waited for without a mark.
        self._again_at: float | None = None
        # Marked, but transactions that cannot have seen it may be under way.
        self._fresh: set[str] = set()
        self._settling: Settling | None = None
        self._look_at = 0.0
        self._news = asyncio.Event()
        self._patience = Patience(longest=SOON_SECONDS)
        # Why the last look failed, if it did.
        self.trouble: Exception | None = None

    def wake(self) -> None:
        """Somebody waits for a queue that nobody waited for before."""
        self._news.set()

    def heard(self, queue: str) -> None:
        """A notification of *queue* has come."""
        now = monotonic()
        for name in (queue, EVERY_QUEUE):
            arrivals = self._arrivals.get(name)
            if arrivals is not None:
                arrivals.heard(now)
                if arrivals.notified and not arrivals.should_be_notified(now):
                    self._news.set()

    def rely_on_none(self) -> None:
        """The listener was lost: what came since was not heard of, and no mark may be there now."""
        self._known_until.clear()
        self._fresh.clear()
        self._settling = None
        self._look_at = 0.0
        self._news.set()

    def dealt(self, leases: Sequence[Lease]) -> None:
        """These were given to one who polls."""
        if not leases:
            return
        for name in (leases[0].queue, EVERY_QUEUE):
            if name in self._arrivals:
                self._arrivals[name].looked(monotonic(), leases)

    def settled(self, queues: Collection[str]) -> bool:
        """Whether everything that comes to *queues* from now on is heard of."""
        if not self._is_listening():
            return False
        relied = monotonic() + _MARGIN_SECONDS
        return all(
            queue not in self._fresh and self._known_until.get(queue, 0.0) > relied
            for queue in queues
        )

    def look_now(self) -> None:
        """Look at what is waited for, unless everything that comes is heard of."""
        if not self._is_listening():
            self._look_at = 0.0
            self._news.set()

    def knows(self, queues: Collection[str]) -> bool:
        """Whether *queues* are marked, settled or not."""
        return all(queue in self._known_until for queue in queues)

    async def run(self) -> None:
        """Keep marking and looking for ever; the owner cancels it."""
        while True:
            try:
                seconds = await self._pass()
            except Exception as error:
                # The border of a service's tick.
                self.trouble = error
                self._known_until.clear()
                if not is_trouble(error):
                    log.error(
                        "looking for tasks failed; it will be tried again",
                        exc_info=without_rows(error),
                    )
                elif self._patience.may_complain():
                    log.warning("waiting polls wait for the database: %s", one_line(error))
                await asyncio.sleep(self._patience.next_pause())
                continue
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _pass(self) -> float:
        """Do what is due; returns in how many seconds there is more to do."""
        self._news.clear()
        waited = set(self._waited())
        await self._let_go(waited)
        marked = await self._worth_a_mark(waited)
        if not waited:
            # What is not settled by now is marked anew when somebody comes back for it.
            for queue in self._fresh:
                self._known_until.pop(queue, None)
            self._settling = self._again_at = None
            self._fresh.clear()
            return _BUSY_AFTER_SECONDS if self._known_until else _KNOWN_FOR_SECONDS
        listening = self._is_listening()
        soon = _KNOWN_FOR_SECONDS
        if listening:
            soon = await self._look_soon(waited - marked)
            if marked:
                await self._mark(marked)
            if self._settling is not None and not await self._look_again(self._settling, waited):
                return min(self._settling.next_pause(), soon)
        elif self._known_until:
            self.rely_on_none()
        now = monotonic()
        if now >= self._look_at:
            await self._look(waited)
        ends = (until for queue, until in self._known_until.items() if queue in waited)
        renew_at = min(ends, default=self._look_at) - _KNOWN_FOR_SECONDS / 2
        next_at = min(self._look_at, renew_at) if listening else self._look_at
        # That the listener is lost is noticed in a second, whenever the next look is due.
        return min(max(0.0, next_at - monotonic()), self._look_seconds, soon)

    async def _worth_a_mark(self, waited: set[str]) -> set[str]:
        """Return which to mark; of those that notify too often the marks are taken away."""
        now = monotonic()
        for queue in waited:
            if queue not in self._arrivals:
                self._arrivals[queue] = Arrivals(now)
        if len(self._arrivals) > _MOST_REMEMBERED:
            kept = waited | self._known_until.keys()
            self._arrivals = {q: a for q, a in self._arrivals.items() if q in kept}
        worth = {q for q, a in self._arrivals.items() if a.should_be_notified(now)}
        await self._stop({q for q, a in self._arrivals.items() if a.notified} - worth)
        return waited & worth

    async def _stop(self, queues: set[str]) -> None:
        if not queues:
            return
        for queue in queues:
            self._known_until.pop(queue, None)
            self._fresh.discard(queue)
        await self._call(StopWaiting(self._instance, tuple(sorted(queues))))
        for queue in queues & self._arrivals.keys():
            self._arrivals[queue].asks_no_more(monotonic())

    async def _look_soon(self, queues: set[str]) -> float:
        """Look at what is waited for without a mark; returns in how many seconds to come back."""
        if not queues:
            self._again_at = None
            return _KNOWN_FOR_SECONDS
        if self._again_at is not None and monotonic() >= self._again_at:
            for queue in queues:
                # What is there and nobody takes is no reason to look the sooner.
                self._arrivals[queue].looked(monotonic(), ())
            await self._look(queues)
            self._again_at = None
        now = monotonic()
        if self._again_at is None:
            self._again_at = now + min(self._arrivals[queue].pause for queue in queues)
        return max(0.0, self._again_at - now)

    async def _mark(self, waited: set[str]) -> None:
        now = monotonic()
        new = {queue for queue in waited if self._known_until.get(queue, 0.0) <= now}
        due = now + _KNOWN_FOR_SECONDS / 2
        if not new and all(self._known_until[queue] > due for queue in waited):
            return
        queues = tuple(sorted(waited))
        if not new:
            await self._call(KeepWaiting(self._instance, queues, _KNOWN_FOR_SECONDS))
            self._known_until.update(dict.fromkeys(waited, now + _KNOWN_FOR_SECONDS))
            return
        for queue in new:
            # From here on an enqueue may notify us, whatever becomes of the answer.
            self._arrivals[queue].asked(now)
        horizon = await self._call(WaitForTasks(self._instance, queues, _KNOWN_FOR_SECONDS))
        self._known_until.update(dict.fromkeys(waited, now + _KNOWN_FOR_SECONDS))
        self._fresh |= new
        self._settling = Settling(horizon, _LONGEST_PAUSE_SECONDS)
        await self._look(waited)

    async def _look_again(self, settling: Settling, waited: set[str]) -> bool:
        """Look once more; whether all who could not see the mark have ended."""
        is_over = settling.is_over(ended=await self._call(TransactionsEnded(settling.horizon)))
        await self._look(waited & self._fresh)
        if is_over:
            self._settling = None
            self._fresh.clear()
        return is_over

    async def _look(self, queues: set[str]) -> None:
        """Look which queues have tasks: one statement, however many wait for however many."""
        if not queues:
            return
        if EVERY_QUEUE in queues:
            ready = await self._call(ListReadyQueues())
        else:
            ready = await self._call(ListReadyOf(tuple(sorted(queues))))
        seconds = self._look_seconds_listening if self._is_listening() else self._look_seconds
        # Jittered, so that many servers do not look in step.
        self._look_at = monotonic() + seconds * random.uniform(0.8, 1.0)
        if ready:
            self._found(ready)

    async def _let_go(self, waited: set[str]) -> None:
        """Ask for no more wake-ups for queues that nobody came back to."""
        now = monotonic()
        for queue in list(self._known_until):
            if self._known_until[queue] <= now:
                del self._known_until[queue]
            elif queue in waited:
                self._left_at.pop(queue, None)
            else:
                self._left_at.setdefault(queue, now)
        self._left_at = {q: at for q, at in self._left_at.items() if q in self._known_until}
        left = [q for q, at in self._left_at.items() if at <= now - _BUSY_AFTER_SECONDS]
        await self._stop(set(left))

    async def _call(self, command: Command[R]) -> R:
        answer = await self._transport.call(command)
        self.trouble = None
        self._patience.reset()
        return answer
