"""Where a worker's tasks come from, and how it waits for more.

A worker asks for as many as it has room for and is told how many came. Whether that is one
statement for each queue and a pause until a notification (`LocalSource`), or a call that a server
answers when there is something (`worker/remote.py`), is all the difference between the two.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

from wherry.commands.leases import LeaseTasks
from wherry.commands.maintenance import PromoteTasks
from wherry.commands.queues import ListReadyQueues
from wherry.domain.lease import Lease
from wherry.transport.base import Transport
from wherry.worker.intake import Wanted
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
        self._rotation: deque[str] = deque(queues or ())
        self._types = types
        self._lease_seconds = lease_seconds

    async def take(self, want: Wanted, keep: Keep, *, may_wait: bool) -> int:
        """Lease from one queue after the other until there are enough; never waits for any."""
        if self._queues is None:
            self._rotation = deque(await self._transport.call(ListReadyQueues()))
            random.shuffle(self._rotation)
        taken = 0
        for _ in range(len(self._rotation)):
            queue = self._rotation[0]
            # Round robin between queues: each lease starts with the next one.
            self._rotation.rotate(-1)
            leases = await self._transport.call(
                LeaseTasks(
                    queue=queue,
                    worker=self._worker,
                    limit=want.tasks - taken,
                    limit_last=max(0, want.last - taken),
                    types=self._types,
                    lease_seconds=self._lease_seconds,
                )
            )
            taken += len(leases)
            if not keep(leases) or taken >= want.tasks:
                break
        return taken

    async def busy(self) -> None:
        """There is work enough: no wake-ups are wanted."""
        await self._wakeups.busy()

    async def pause(self) -> None:
        """Return when it is worth leasing again."""
        await self._wakeups.pause()

    async def is_empty(self, keep: Keep) -> bool:
        """Whether nothing is due, not even of what was delayed."""
        promoted = await self._transport.call(PromoteTasks())
        return not promoted.promoted and not await self.take(Wanted(1, 1), keep, may_wait=False)

    def wake(self) -> None:
        """End the present or the next pause."""
        self._wakeups.wake()

    def is_final(self, error: Exception) -> bool:
        """No: a database that refuses is waited for."""
        return False
