"""Decides how many tasks to lease, and from which queue next.

Pure: the worker's loop asks, leases, and tells what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many tasks to lease; at most `last` of them on their last attempt."""

    tasks: int
    last: int


# Until so many handlers have ended nobody knows how long they take.
_FEWEST_SEEN = 20


class Pace:
    """How long handlers take: a moving average, in seconds. None until enough have ended.

    The first to end is often the one that failed at once: by it alone a worker would lease a
    thousand tasks that it cannot start for minutes, and that others could have had.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._average = 0.0

    @property
    def seconds(self) -> float | None:
        """How long a handler takes on average, as far as that is known."""
        return self._average if self._seen >= _FEWEST_SEEN else None

    def add(self, seconds: float) -> None:
        """Count one handler's time."""
        self._seen += 1
        weight = 0.1 if self._seen > 10 else 1 / self._seen
        if seconds > self._average * 10:
            # A long one counts at once: what was fast a moment ago is not prefetched any more.
            weight = 1.0
        self._average += (seconds - self._average) * weight


def wanted(
    *,
    slots: int,
    running: int,
    buffered: int,
    pace: float | None,
    ahead_seconds: float,
    most: int,
    only_free_slots: bool = False,
) -> Wanted:
    """Return how many tasks to lease now.

    For every free slot one, and beyond that what will start within *ahead_seconds* at the measured
    pace: two leases at most, so that one can be on its way while the other is run. A task on its
    last attempt is for a free slot only: prefetched by a worker that then dies, it would be dead
    without having run. *only_free_slots* makes room for such tasks from time to time, since a busy
    worker that always prefetches has no free slot when it leases.
    """
    free = max(0, slots - running - buffered)
    ahead = 0
    if pace is not None and (free or not only_free_slots):
        ahead = int(min(2 * most, slots * ahead_seconds / max(pace, 1e-6)))
    tasks = min(most, slots - running + ahead - buffered)
    # A few at a time would cost a statement each: wait for room that is worth one.
    if tasks < max(1, ahead // 2) and not free:
        return Wanted(0, 0)
    return Wanted(max(tasks, 0), free)
