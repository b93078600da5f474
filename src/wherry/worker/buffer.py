"""Leases that wait for a slot, and slots that wait for a lease.

Whichever slot comes first takes the next lease, whoever was woken for it. Only one slot is woken
for a batch: it goes on by itself as long as its handlers never wait, and wakes others when one
does. So where handlers are quick the other slots cost nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from wherry.domain.lease import Lease


class Buffer:
    """A queue of leases that is filled in batches; of one event loop."""

    def __init__(self) -> None:
        self._leases: deque[Lease] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._leases)

    def put(self, leases: Sequence[Lease]) -> None:
        """Add leases, and wake a slot."""
        self._leases.extend(leases)
        self.wake(1)

    def take(self) -> Lease | None:
        """Return the next lease, if there is one."""
        return self._leases.popleft() if self._leases else None

    async def get(self) -> Lease:
        """Return the next lease as soon as there is one."""
        while not self._leases:
            woken = asyncio.get_running_loop().create_future()
            self._waiting.append(woken)
            try:
                await woken
            except BaseException:
                # Who was woken and canceled at once leaves the lease to another.
                if woken.done() and not woken.cancelled():
                    self.wake(1)
                raise
        return self._leases.popleft()

    def take_all(self) -> list[Lease]:
        """Return everything that is left, and be empty."""
        left = list(self._leases)
        self._leases.clear()
        return left

    def wake(self, most: int) -> None:
        """Wake *most* of the slots that wait, if there are leases for them.

        Whoever takes a lease and then waits has to call this: by twos, soon all are awake.
        """
        most = min(most, len(self._leases))
        while most and self._waiting:
            woken = self._waiting.popleft()
            if not woken.done():
                woken.set_result(None)
                most -= 1
