"""The places of one who leases in its queues, and the fronts that it knows.

All it does is to ask the database from time to time: for the fronts there are before its first
lease, and to move a front when it has leased many tasks, or when a lease took long. Who is idle
asks only now and then whether the fronts it knows are still true. They are for good, unless the
database itself goes back in time: a restore, or a failover to a copy that lacked the last seconds.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from wherry.commands.fronts import ListFronts, MoveFront
from wherry.domain.cursor import Cursor
from wherry.domain.front import Front
from wherry.transport.base import Transport

# Somebody makes a queue for each customer: places are cheap to find again.
_MOST: Final = 10_000
# What was learned from a database that has lost its last seconds is not kept for longer.
_TRUSTED_SECONDS: Final = 30.0


class Cursors:
    """Cursors for one who leases, by queue and by types that are leased together."""

    def __init__(self, transport: Transport, *, queues: tuple[str, ...] | None) -> None:
        """*queues*: those whose fronts are asked for at first; None for all."""
        self._transport = transport
        self._queues = queues
        self._fronts: dict[str, Front] = {}
        self._learn_at = 0.0
        self._cursors: dict[tuple[str, tuple[str, ...] | None], Cursor] = {}

    async def of(self, queue: str, types: tuple[str, ...] | None) -> Cursor:
        """Return the place in *queue* of who leases *types*. Raises Unavailable."""
        if monotonic() >= self._learn_at:
            self._fronts = await self._transport.call(ListFronts(self._queues))
            self._learn_at = monotonic() + _TRUSTED_SECONDS
            for (name, _), known in self._cursors.items():
                known.knows(self._fronts.get(name))
        cursor = self._cursors.get((queue, types))
        if cursor is None:
            if len(self._cursors) >= _MOST:
                self._cursors.clear()
            cursor = self._cursors[queue, types] = Cursor(self._fronts.get(queue))
        return cursor

    async def move(self, queue: str, cursor: Cursor) -> None:
        """Have the queue's front moved, if it is time. Raises Unavailable."""
        began = monotonic()
        if cursor.wants_front(began):
            front, horizon = await self._transport.call(
                MoveFront(queue, cursor.priorities, cursor.horizon)
            )
            cursor.found(front, horizon, began_at=began, now=monotonic())

    def forget(self) -> None:
        """Begin everywhere at the beginning: nothing is to be passed over."""
        self._fronts = {}
        self._learn_at = monotonic() + _TRUSTED_SECONDS
        self._cursors.clear()

    def doubt(self) -> None:
        """Learn everything anew: the connection is lost, and the next one may be to another server.

        That one may lack the last seconds, and draw their positions a second time.
        """
        self._learn_at = 0.0
        self._cursors.clear()
