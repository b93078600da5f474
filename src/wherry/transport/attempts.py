"""How often a pool of ours tries to make a connection.

By itself it would wait 1, 2, 4 and more seconds, and so come late to a database that is back.
"""

from __future__ import annotations

from wherry.transport.patience import SOON_SECONDS, Patience


class Attempts:
    """The attempts at one connection, as a pool of psycopg's asks about them."""

    def __init__(self, *, seconds: float) -> None:
        """*seconds*: when to give up, counted from the first failure."""
        self._seconds = seconds
        self._patience = Patience(longest=SOON_SECONDS)
        self._gives_up_at: float | None = None
        self.delay = 0.0

    def update_delay(self, now: float) -> None:
        """It has failed *now*: settle how long to wait before the next attempt."""
        if self._gives_up_at is None:
            self._gives_up_at = now + self._seconds
        self.delay = max(0.0, min(self._patience.next_pause(), self._gives_up_at - now))

    def time_to_give_up(self, now: float) -> bool:
        """Whether the attempt that has just failed was the last."""
        return self._gives_up_at is not None and now >= self._gives_up_at
