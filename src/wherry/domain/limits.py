"""The limits of a queue: how many of its tasks run at once, and how many may start in a time.

The rate is a bucket: it holds `burst` starts when it is full, each start takes one, and `rate` come
back in every `per_seconds`. So in any time of t seconds no more than burst + t * rate / per_seconds
tasks start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from wherry.domain.durations import Duration, number_of_seconds
from wherry.domain.options import check_integer
from wherry.errors import InvalidOption

MOST: Final = 1_000_000
_LEAST_SECONDS: Final = 0.001
MOST_PER_SECONDS: Final = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What is checked already (`of` checks). None: no limit of that kind; one of them there is."""

    max_running: int | None = None
    rate: int | None = None
    per_seconds: float | None = None
    burst: int | None = None

    @classmethod
    def of(
        cls,
        *,
        max_running: int | None = None,
        rate: int | None = None,
        per: Duration | None = None,
        burst: int | None = None,
    ) -> QueueLimits | None:
        """Return these limits, or None if there is none among them. Raises InvalidOption.

        *rate* counts starts in *per*, a second if that is not given. *burst* is what comes in one
        second if it is not given, and one at least.
        """
        if max_running == 0:
            reason = "must be 1 or more; to run none of its tasks, pause the queue"
            raise InvalidOption("max_running", max_running, reason)
        if max_running is not None:
            check_integer(max_running, option="max_running", least=1, most=MOST)
        if rate is None:
            for option, value in (("per", per), ("burst", burst)):
                if value is not None:
                    raise InvalidOption(option, value, "goes with a rate, and there is none")
            return None if max_running is None else cls(max_running)
        check_integer(rate, option="rate", least=1, most=MOST)
        seconds = 1.0 if per is None else number_of_seconds(per)
        if seconds is None or not _LEAST_SECONDS <= seconds <= MOST_PER_SECONDS:
            raise InvalidOption("per", per, "must be a time from a millisecond to 366 days")
        if burst is None:
            burst = min(max(1, round(rate / seconds)), MOST)
        check_integer(burst, option="burst", least=1, most=MOST)
        return cls(max_running, rate, seconds, burst)

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> QueueLimits | None:
        """Return the limits of a row: its columns are our fields; all null is none."""
        return None if all(column is None for column in row) else cls(*row)

    def __str__(self) -> str:
        said = [] if self.max_running is None else [f"at most {self.max_running:,} at once"]
        if self.rate is not None:
            said.append(f"{self.rate:,} starts in {self.per_seconds:g} s, {self.burst:,} in one go")
        return "; ".join(said)


@dataclass(frozen=True, slots=True)
class LimitSeen:
    """The limits of a queue as they are just now. None: there is no limit of that kind."""

    queue: str
    max_running: int | None
    starts_per_second: float | None
    is_rate_reached: bool | None


@dataclass(frozen=True, slots=True)
class LimitsSeen:
    """The first queues that have limits, by name, and how many there are."""

    limits: tuple[LimitSeen, ...]
    queues: int
