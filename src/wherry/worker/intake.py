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


class Pace:
    """How long handlers take: a moving average, in seconds. None until one has ended."""

    def __init__(self) -> None:
        self.seconds: float | None = None

    def add(self, seconds: float) -> None:
        """Count one handler's time."""
        old = self.seconds
        # A long one counts at once: what was fast a moment ago may not be prefetched for any more.
        self.seconds = seconds if old is None or seconds > old * 10 else old * 0.9 + seconds * 0.1


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

    For every free slot one, and beyond that what will start within *ahead_seconds* at the measured pace.
    A task on its last attempt is for a free slot only: prefetched by a worker that then dies, it would be
    dead without having run. *only_free_slots* makes room for such tasks from time to time, since a busy
    worker that always prefetches has no free slot when it leases.
    """
    free = max(0, slots - running - buffered)
    ahead = 0
    if pace is not None and not only_free_slots:
        ahead = int(min(most, slots * ahead_seconds / max(pace, 1e-6)))
    tasks = min(most, slots - running + ahead - buffered)
    # A few at a time would cost a statement each: wait for room that is worth one.
    if tasks < max(1, ahead // 2) and not free:
        return Wanted(0, 0)
    return Wanted(max(tasks, 0), free)
