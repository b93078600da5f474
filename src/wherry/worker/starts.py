"""When the next task may start, for who waits in queues whose rate is limited.

No notification comes when the time has come: it is asked for before each pause, but only while some
queue has such a limit. That one has is noticed within half a minute, or at once by who listens.
"""

from __future__ import annotations

import random
from time import monotonic
from typing import Final

from wherry.commands.queues import ListStarts
from wherry.transport.base import Transport

_KNOWN_SECONDS: Final = 30.0
# So that those who wait for the same moment do not all look at once.
_JITTER_SECONDS: Final = (0.005, 0.05)


class Starts:
    """Starts in *queues*; None is all there are."""

    def __init__(self, transport: Transport, *, queues: tuple[str, ...] | None) -> None:
        self._transport = transport
        self._queues = queues
        self._some = False
        self._learn_at = 0.0

    def doubt(self) -> None:
        """Some limit was changed."""
        self._learn_at = 0.0

    async def after(self, look_at: float) -> dict[str, float]:
        """Return in how many seconds a look is worth it, by queue, for a look that began then.

        What could start before that look is there for other reasons. Raises Unavailable.
        """
        if not self._some and monotonic() < self._learn_at:
            return {}
        self._learn_at = monotonic() + _KNOWN_SECONDS
        starts = await self._transport.call(ListStarts(self._queues))
        self._some = bool(starts)
        ago = monotonic() - look_at
        return {
            queue: max(0.0, seconds) + random.uniform(*_JITTER_SECONDS)
            for queue, seconds in starts.items()
            if seconds is not None and seconds > -ago
        }
