"""Where a worker's tasks come from, and how it waits for more.

A worker asks for as many as it has room for and is told how many came. Whether that is one
statement for each queue and a pause until a notification (`LocalSource`), or a call that a server
answers when there is something (`worker/remote.py`), is all the difference between the two.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Protocol, TypeAlias

from wherry.commands.leases import LeaseTasks
from wherry.commands.maintenance import PromoteTasks, UnparkTasks
from wherry.commands.queues import ListReadyOf, ListReadyQueues
from wherry.domain.lease import Lease
from wherry.transport.base import Transport
from wherry.worker.cursors import Cursors
from wherry.worker.intake import Wanted
from wherry.worker.starts import Starts
from wherry.worker.wakeups import Wakeups

# Takes leases as they come, and says whether more are wanted.
Keep: TypeAlias = Callable[[list[Lease]], bool]


class Source(Protocol):
    """Gives a worker its tasks."""

    @property
    def place(self) -> str:
        """Whose trouble it is when there are no tasks to be had."""
        ...

    async def take(self, want: Wanted, keep: Keep, *, may_wait: bool) -> int:
        """Lease what is wanted, at most; *keep* gets the leases as they come.

        Returns how many came. With *may_wait* it may wait for the first of them. Raises Unavailable
        and the like.
        """
        ...

    async def busy(self) -> None:
        """There is work enough: no wake-ups are wanted."""
        ...

    async def pause(self) -> None:
        """Return when it is worth asking again."""
        ...

    async def gather(self) -> None:
        """Return when it is worth asking again, after an answer that had all there was."""
        ...

    async def is_empty(self, keep: Keep) -> bool:
        """Whether nothing at all is due; what is found after all goes to *keep*."""
        ...

    def wake(self) -> None:
        """End the present wait, or the next one."""
        ...

    def is_final(self, error: Exception) -> bool:
        """Whether *error* will not pass by itself, so that the worker has to end with it."""
        ...


class LocalSource:
    """Leases from the database itself, queue by queue."""

    place = "the database"

    def __init__(
        self,
        transport: Transport,
        wakeups: Wakeups,
        *,
        worker: str,
        queues: tuple[str, ...] | None,
        types: tuple[str, ...],
        lease_seconds: float,
    ) -> None:
        self._transport = transport
        self._wakeups = wakeups
        self._worker = worker
        self._queues = queues
        self._rotation = list(queues or ())
        self._was_empty = False
        self._types = types
        self._lease_seconds = lease_seconds
        self._cursors = Cursors(transport, queues=queues)
        self._starts = Starts(transport, queues=queues)
        self._looked_at = 0.0

    async def take(self, want: Wanted, keep: Keep, *, may_wait: bool) -> int:
        """Lease from one queue after the other until there are enough; never waits for any."""
        try:
            return await self._take(want, keep)
        except Exception:
            self._cursors.doubt()
            raise

    async def _take(self, want: Wanted, keep: Keep) -> int:
        taken: list[Lease] = []
        self._looked_at = monotonic()
        for queue in await self._worth_a_look():
            cursor = await self._cursors.of(queue, self._types)
            while True:
                left, began = want.tasks - len(taken), monotonic()
                leases = await self._transport.call(
                    LeaseTasks(
                        queue=queue,
                        worker=self._worker,
                        limit=left,
                        limit_last=max(0, want.last - len(taken)),
                        types=self._types,
                        lease_seconds=self._lease_seconds,
                        front=cursor.looks_from(began),
                    )
                )
                leased_at = monotonic()
                taken += leases
                is_enough = not keep(leases) or len(taken) >= want.tasks
                if leases and not is_enough:
                    # There is nothing to hurry for here: whoever was waited for begins first.
                    await asyncio.sleep(0)
                cursor.leased(leases, wanted=left, began_at=began, now=leased_at)
                if is_enough or not cursor.has_passed_over(monotonic()):
                    break
            # Round robin between queues: it is the last one next time.
            self._rotation.remove(queue)
            self._rotation.append(queue)
            await self._cursors.move(queue, cursor)
            if is_enough:
                break
        self._wakeups.looked(taken)
        self._was_empty = not taken
        return len(taken)

    async def _worth_a_look(self) -> list[str]:
        heard = self._wakeups.heard_of()
        if self._queues is None:
            self._rotation = await self._transport.call(ListReadyQueues())
            random.shuffle(self._rotation)
        elif len(self._queues) > 1 and self._was_empty and not heard:
            # One look at all of them, instead of a statement for each that is empty.
            ready = set(await self._transport.call(ListReadyOf(self._queues)))
            return [queue for queue in self._rotation if queue in ready]
        # Where we were just told of a task there is one, mostly.
        return sorted(self._rotation, key=lambda queue: queue not in heard)

    async def busy(self) -> None:
        """There is work enough: no wake-ups are wanted."""
        await self._wakeups.busy()

    async def pause(self) -> None:
        """Return when it is worth leasing again."""
        starts = await self._starts.after(self._looked_at)
        await self._wakeups.pause(at_most=min(starts.values(), default=inf))

    async def gather(self) -> None:
        """Yield, and let tasks gather for a few ms where they come that often."""
        await self._wakeups.gather()

    async def is_empty(self, keep: Keep) -> bool:
        """Whether nothing is due: not of what was delayed, or set aside, or waits for a rate."""
        promoted = await self._transport.call(PromoteTasks())
        # Tasks of our types may have been set aside until we came.
        unparked = await self._transport.call(UnparkTasks())
        # From the beginning: here nothing may be passed over.
        self._cursors.forget()
        self._was_empty = False
        if promoted.promoted or unparked.unparked:
            return False
        if await self.take(Wanted(1, 1), keep, may_wait=False):
            return False
        starts = await self._starts.after(self._looked_at)
        if starts:
            await self._wakeups.pause(at_most=min(starts.values()))
        return not starts

    def wake(self) -> None:
        """End the present or the next pause."""
        self._wakeups.wake()

    def heard(self, queue: str) -> None:
        """A notification has come; of the empty name: any may have been lost, or limits changed."""
        if not queue:
            self._starts.doubt()
        self._wakeups.heard(queue)

    def is_final(self, error: Exception) -> bool:
        """No: a database that refuses is waited for."""
        return False
