"""What a handler raises to say how its attempt ended; none of it is an error.

Signal
├── Fail        do not retry
├── Retry       retry after this delay
├── Snooze      not now; the attempt is not counted
└── Cancel      end as canceled
"""

from __future__ import annotations

from datetime import timedelta

from wherry.raised import Raised


class Signal(Raised):
    """Raised by a handler to say how its attempt ended."""


class Fail(Signal):
    """End the task as `failed`: retrying would not help."""


class Retry(Signal):
    """Retry after a delay of one's own instead of the policy's; counts as a failed attempt.

    *after* is a timedelta or a number of seconds.
    """

    def __init__(self, reason: str = "", *, after: timedelta | float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class Snooze(Signal):
    """Not now: put the task back for *delay* (timedelta or seconds). The attempt is not counted."""

    def __init__(self, delay: timedelta | float, reason: str = "") -> None:
        super().__init__(reason)
        self.delay = delay


class Cancel(Signal):
    """End the task as `canceled`."""
