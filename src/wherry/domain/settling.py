"""The moments after somebody has said that he waits, until everything that comes is heard of.

Who enqueues notifies only if he sees that somebody waits. A transaction that was under way when
that was written may not see it, so whoever came to wait looks again, with growing pauses, until
all of those have ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_FIRST_PAUSE_SECONDS: Final = 0.005
# An enqueue that had not seen it, and had no transaction id yet, is over within two looks.
_LOOKS: Final = 2


@dataclass(slots=True)
class Settling:
    """Looks until the transactions below `horizon` have ended."""

    horizon: int
    longest_pause_seconds: float
    _looks: int = 0
    _pause_seconds: float = _FIRST_PAUSE_SECONDS

    def is_over(self, *, ended: bool) -> bool:
        """Count one more look; whether no other is needed, if those transactions have *ended*."""
        self._looks += 1
        return ended and self._looks > _LOOKS

    def next_pause(self) -> float:
        """Return how many seconds to wait before the next look; each is twice the one before."""
        pause = self._pause_seconds
        self._pause_seconds = min(pause * 2, self.longest_pause_seconds)
        return pause
