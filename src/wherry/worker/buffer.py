"""Leases that wait for a slot, and slots that wait for a lease.

Whichever slot comes first takes the next lease, whoever was woken for it: while there are leases
nobody waits, and taking one costs next to nothing.
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
        """Add leases, and wake a slot for each."""
        self._leases.extend(leases)
        self._wake(len(leases))

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
                    self._wake(1)
                raise
        return self._leases.popleft()

    def take_all(self) -> list[Lease]:
        """Return everything that is left, and be empty."""
        left = list(self._leases)
        self._leases.clear()
        return left

    def _wake(self, most: int) -> None:
        while most and self._waiting:
            woken = self._waiting.popleft()
            if not woken.done():
                woken.set_result(None)
                most -= 1
