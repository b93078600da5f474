"""Where one worker looks for the next tasks of one queue.

Pure: whoever leases asks, leases, and tells what came of it. It begins at the queue's front, and
while its leases come back full it goes on where the last one ended: between two fronts, dead
entries pile up there too. What was passed over meanwhile (its transaction had not committed, a
neighbour gave it up) is found when it begins at the front again, which is at least once a second,
and after every lease that was not full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wherry.domain.front import Front, Horizon
from wherry.domain.lease import Lease

_AGAIN_SECONDS: Final = 1.0
# So many tasks leased are worth a new front, and so is a lease that took so long.
_MANY: Final = 1000
_LONG_SECONDS: Final = 0.02
# While the front cannot be moved (a transaction that has enqueued is left open), beginning there
# takes ever longer. It may take a twentieth of the time; its turn comes twice a minute at least.
_SHARE: Final = 20
_LONGEST_SECONDS: Final = 30.0


class Cursor:
    """One worker's place in one queue. All times are monotonic, in seconds."""

    def __init__(self, front: Front | None = None) -> None:
        self.horizon: Horizon | None = None
        self._front = front
        # The last position that was leased, by priority.
        self._ends: dict[int, int] = {}
        self._begins = True
        self._was_full = self._is_stuck = False
        self._begin_at = self._resting_until = 0.0
        self._leased = 0
        self._took = 0.0
        self._move_at = 0.0
        self._priorities: set[int] = set()

    @property
    def priorities(self) -> tuple[int, ...]:
        """Which priorities have been leased since the front was found; in order."""
        return tuple(sorted(self._priorities))

    def looks_from(self, now: float) -> Front | None:
        """Return where the next lease is to begin: None for the beginning."""
        goes_on = now < self._resting_until or (self._was_full and now < self._begin_at)
        self._begins = not self._ends or not goes_on
        return self._front if self._begins else (self._front or Front()).past(self._ends)

    def leased(self, leases: Sequence[Lease], *, wanted: int, began_at: float, now: float) -> None:
        """Take note of a lease of *wanted* tasks; *leases* are in their order."""
        self._was_full = len(leases) >= wanted
        self._leased += len(leases)
        self._took = now - began_at
        if self._begins:
            rest = self._took * _SHARE if self._is_stuck else 0.0
            self._begin_at = now + _AGAIN_SECONDS
            self._resting_until = now + min(rest, _LONGEST_SECONDS)
            if self._was_full:
                # There may be more of what was passed over before.
                self._ends.clear()
        if leases and leases[0].priority == leases[-1].priority:
            leases = leases[-1:]
        for lease in leases:
            self._priorities.add(lease.priority)
            end = self._ends.get(lease.priority, lease.position)
            self._ends[lease.priority] = max(end, lease.position)

    def has_passed_over(self, now: float) -> bool:
        """Whether the last lease, which began behind the front, has not told that there is no more.

        Then it is worth another one at once: whoever finds nothing goes to sleep.
        """
        return not self._was_full and not self._begins and now >= self._resting_until

    def wants_front(self, now: float) -> bool:
        """Whether it is time to have the front moved."""
        return now >= self._move_at and (self._leased >= _MANY or self._took > _LONG_SECONDS)

    def knows(self, front: Front | None) -> None:
        """Take the newest front there is, which may be a lower one: its sequence was set back."""
        self._front = front

    def found(self, front: Front, horizon: Horizon, *, began_at: float, now: float) -> None:
        """Take the front that was moved, or found where others had moved it."""
        self._is_stuck = horizon == self.horizon
        self._front, self.horizon = front, horizon
        self._move_at = now + min(max(_AGAIN_SECONDS, (now - began_at) * _SHARE), _LONGEST_SECONDS)
        self._leased, self._took = 0, 0.0
        self._priorities.clear()
