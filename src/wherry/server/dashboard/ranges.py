"""The lengths of time that charts can show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final


@dataclass(frozen=True, slots=True)
class Range:
    """A choice of the range picker; `name` stands in addresses."""

    name: str
    label: str
    length: timedelta


RANGES: Final = (
    Range("15m", "15 minutes", timedelta(minutes=15)),
    Range("1h", "1 hour", timedelta(hours=1)),
    Range("6h", "6 hours", timedelta(hours=6)),
    Range("24h", "24 hours", timedelta(hours=24)),
    Range("7d", "7 days", timedelta(days=7)),
)
DEFAULT_RANGE: Final = RANGES[1]


def range_of(name: str | None) -> Range:
    """Return the range of that name, or the usual one."""
    return next((each for each in RANGES if each.name == name), DEFAULT_RANGE)
