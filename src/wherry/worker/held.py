"""The leases a worker holds: from the moment they arrive until the answer to their report.

Shared between the event loop and the keeper's thread, so every look is a snapshot under a lock.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from wherry.domain.lease import Fence, Lease, LeaseRef


class Held:
    """Leases by fence, and how many of each batch are outstanding."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[Fence, Lease] = {}
        self._batches: Counter[str] = Counter()

    def add(self, leases: Iterable[Lease]) -> None:
        """Hold leases that have just arrived."""
        with self._lock:
            for lease in leases:
                self._leases[lease.fence] = lease
                self._batches[lease.lease_id] += 1

    def drop(self, leases: Iterable[LeaseRef]) -> None:
        """Let go of leases that were settled or lost."""
        with self._lock:
            for lease in leases:
                if self._leases.pop(lease.fence, None) is not None:
                    self._batches[lease.lease_id] -= 1
                    if not self._batches[lease.lease_id]:
                        del self._batches[lease.lease_id]

    def all(self) -> list[Lease]:
        """Return every lease held now."""
        with self._lock:
            return list(self._leases.values())

    def closed_by(self, leases: Iterable[LeaseRef]) -> tuple[str, ...]:
        """Return the batches of which nothing is outstanding once these leases are settled."""
        settling = Counter(lease.lease_id for lease in leases)
        with self._lock:
            return tuple(id_ for id_, n in settling.items() if self._batches[id_] <= n)

    def __len__(self) -> int:
        return len(self._leases)
