"""Task ids drawn ahead of their enqueue.

With its id known before it is sent, an enqueue whose answer was lost can be sent again and is still
one task. Ids that are never used leave gaps, which mean nothing.
"""

from __future__ import annotations

import os
from collections import deque

from wherry.own_lock import OwnLock

_FEWEST = 8
_MOST = 1000
# Whose calls are larger draws for so many of them, since each draw waits for the disk; but no more
# than are drawn in some 20 ms.
_MOST_CALLS = 8
_MOST_AHEAD = 20_000


class TaskIds:
    """A thread-safe stock of drawn ids. A forked child starts with none: these are its parent's."""

    def __init__(self) -> None:
        self._own = OwnLock()
        self._stock: deque[int] = deque()
        self._block = _FEWEST
        self._pid = os.getpid()

    def take(self, n: int) -> tuple[int, ...] | None:
        """Return *n* ids, or None if so many are not in stock."""
        with self._own.lock:
            if self._pid != os.getpid():
                self._stock.clear()
                self._pid = os.getpid()
            if len(self._stock) < n:
                return None
            if n == 1:
                return (self._stock.popleft(),)
            return tuple(self._stock.popleft() for _ in range(n))

    def forget(self) -> None:
        """Throw the stock away: one of these names another task already, so may the others."""
        with self._own.lock:
            self._stock.clear()

    def draw_for(self, n: int) -> int:
        """Return how many ids to draw for a call of *n*: busy enqueuers draw larger blocks."""
        with self._own.lock:
            most = max(_MOST, min(n * _MOST_CALLS, _MOST_AHEAD))
            # The block was perhaps made for larger calls than this one.
            block = min(self._block, most)
            self._block = min(block * 2, most)
            return n + block

    def add(self, drawn: list[int], *, n: int) -> tuple[int, ...]:
        """Keep drawn ids for later, and return *n* of them for now."""
        with self._own.lock:
            self._stock.extend(drawn[n:])
        return tuple(drawn[:n])
