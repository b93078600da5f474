"""Reads lengths of time as people pass them, a timedelta or a number of seconds, and says them.

Everything is refused by one sentence that names the option, because NaN, True and 2**63 all pass a
naive `value < 0` check and only hurt much later, in the database.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final, TypeAlias

from wherry.errors import InvalidOption

# A length of time as people may pass it; a plain number counts seconds.
Duration: TypeAlias = timedelta | float

# A hundred years. Far beyond any sane wait, and far below where timedelta, timestamptz and a double
# of microseconds begin to overflow or to lose digits.
LONGEST = timedelta(days=36_525)
LONGEST_SECONDS = LONGEST.total_seconds()

UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
_PART: Final = re.compile(rf"({_NUMBER})(ms|min|s|m|h|d|w)")
_LENGTH: Final = re.compile(rf"(?:{_NUMBER}(?:ms|min|s|m|h|d|w))+")


def length_of(text: str) -> timedelta | None:
    """Return the length of time that a text says: `90` (seconds), `90s`, `250ms`, `2h`, `1h30m`.

    None for a text that says none. Raises OverflowError for one that is too long to be counted.
    """
    text = text.strip()
    if re.fullmatch(_NUMBER, text):
        return timedelta(seconds=float(text))
    if not _LENGTH.fullmatch(text):
        return None
    parts = (float(found[1]) * UNITS[found[2]] for found in _PART.finditer(text))
    return sum(parts, timedelta())


def seconds_from(
    value: object, *, option: str, zero_allowed: bool = True, index: int | None = None
) -> float:
    """Return *value* (timedelta or seconds) as seconds between 0 and a hundred years.

    Raises InvalidOption naming *option*; *index* is the task's position in a batch.
    """
    seconds = number_of_seconds(value)
    if seconds is None:
        reason = f"must be a timedelta or a number of seconds, not {type(value).__name__}"
    elif math.isnan(seconds):
        reason = "must be a number of seconds, and NaN is none"
    elif seconds < 0:
        reason = "must not be negative"
    elif seconds == 0 and not zero_allowed:
        reason = "must be longer than zero; leave it out for no limit"
    elif seconds > LONGEST_SECONDS:
        reason = f"must be at most {LONGEST.days} days (a hundred years)"
    else:
        return seconds
    raise InvalidOption(option, value, reason, index=index)


def number_of_seconds(value: object) -> float | None:
    """Return *value* as seconds whatever its range (inf if beyond a double), None if not a length.

    True and False are not lengths of time, although Python counts them among the numbers.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return -math.inf if value < 0 else math.inf
    if isinstance(value, float):
        return float(value)
    return None


def span(length: timedelta | float) -> str:
    """Return a length of time as people say it, in its largest unit."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    for unit, unit_seconds, from_seconds in (
        ("days", 86_400, 2 * 86_400),
        ("h", 3600, 2 * 3600),
        ("min", 60, 120),
        ("s", 1, 10),
    ):
        if seconds >= from_seconds:
            return f"{seconds / unit_seconds:.0f} {unit}"
    return f"{max(0.0, seconds):.1f} s"
