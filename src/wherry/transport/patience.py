"""How long to wait before something that failed is tried again, and how often to say that it did.

A database that is away must not be hammered by everybody in step, nor fill the log: so pauses grow,
are jittered, and one line a minute is enough.
"""

from __future__ import annotations

import random
from time import monotonic

# Who waits for a database, or for a server of ours, asks again within so long: one that is back is
# at work within three seconds.
SOON_SECONDS = 1.0
_COMPLAIN_EVERY = 60.0
# What failed only after so long had got through before: that it ended is no sign of an outage.
_GOT_THROUGH = 1.0


class Patience:
    """The patience of one loop: its pauses double from *first* to *longest* seconds."""

    def __init__(self, *, first: float = 0.05, longest: float = 5.0) -> None:
        self._first = self._pause = first
        self._longest = longest
        self._complained_at = -_COMPLAIN_EVERY
        self._told: set[str] = set()

    def reset(self) -> None:
        """It worked: the next pause is the first one again."""
        self._pause = self._first

    def next_pause(self, *, after: float = 0.0) -> float:
        """Return how many seconds to wait this time; what failed had lasted *after* seconds.

        A long poll that is cut, again and again, is asked for again at once.
        """
        if after >= _GOT_THROUGH:
            self.reset()
        pause, self._pause = self._pause, min(self._pause * 2, self._longest)
        return pause * random.uniform(0.5, 1.0)

    def may_complain(self, *, about: str | None = None) -> bool:
        """Return whether to log now: at the first failure, then at most once a minute.

        Something else to complain *about*, where that is known, does not wait for its turn.
        """
        is_news = about is not None and about not in self._told
        if not is_news and monotonic() - self._complained_at < _COMPLAIN_EVERY:
            return False
        if about is not None:
            self._told.add(about)
        self._complained_at = monotonic()
        return True
