"""The leases a worker holds: from the moment they arrive until the answer to their report.

Shared between the event loop and the keeper's thread, so every look is a snapshot under a lock.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence

from wherry.domain.lease import Lease, LeaseRef


class Held:
    """Leases, and how many of each batch are outstanding."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Each lease is one object for as long as it is held: to look for that is quicker than to
        # compare fences. In the order in which they came.
        self._leases: dict[LeaseRef, Lease] = {}
        self._batches: Counter[str] = Counter()
        # How many were lost while they were held.
        self.lost = 0

    def add(self, leases: Sequence[Lease]) -> None:
        """Hold leases that have just arrived."""
        batches = Counter([lease.lease_id for lease in leases])
        with self._lock:
            self._leases.update(zip(leases, leases, strict=True))
            self._batches.update(batches)

    def drop(self, leases: Iterable[LeaseRef]) -> None:
        """Let go of leases that were settled or lost."""
        with self._lock:
            # Taken off first, counted then: what comes in a batch was mostly leased in one.
            let_go = self._leases.pop
            gone = [lease.lease_id for lease in leases if let_go(lease, None) is not None]
            for lease_id, n in Counter(gone).items():
                self._batches[lease_id] -= n
                if not self._batches[lease_id]:
                    del self._batches[lease_id]

    def lose(self, lease: LeaseRef) -> None:
        """Let go of a lease that was lost, and count it, once."""
        with self._lock:
            self.lost += lease in self._leases
        self.drop([lease])

    def all(self) -> list[Lease]:
        """Return every lease held now."""
        with self._lock:
            return list(self._leases.values())

    def closed_by(self, leases: Iterable[LeaseRef]) -> tuple[str, ...]:
        """Return the batches of which nothing is outstanding once these leases are settled."""
        settling = Counter([lease.lease_id for lease in leases])
        with self._lock:
            return tuple(id_ for id_, n in settling.items() if self._batches[id_] <= n)

    def __len__(self) -> int:
        return len(self._leases)
