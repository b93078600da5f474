"""Reads what people write on the command line: lengths of time, instants, rates, pairs.

Only the writing is checked here. Whether a delay may be that long, or a key look like that, is the
library's to say, so that every entrance has the same limits.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import click

from wherry.domain.durations import UNITS, length_of

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_RATE = re.compile(rf"({_NUMBER})(?:/(s|m|min|h))?")


class Whole(click.IntRange):
    """A whole number, from the least to the most if they are said."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it. Raises BadParameter, which says what is asked for."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            raise click.BadParameter(f"{value!r} is no {self._said()}", ctx, param) from None

    def _said(self) -> str:
        if self.min is None:
            return "whole number"
        if self.max is None:
            return f"whole number from {self.min:,} on"
        return f"whole number from {self.min:,} to {self.max:,}"


# Up to the last id that a bigint holds: what is beyond names no task.
TASK_ID = Whole(1, 2**63 - 1)


def duration(text: str) -> timedelta:
    """Read a length of time: `90` (seconds), `90s`, `250ms`, `2h`, `1h30m`, `7d`."""
    try:
        length = length_of(text)
    except OverflowError:
        raise click.BadParameter(f"{text.strip()!r} is longer than can be counted") from None
    if length is not None:
        return length
    raise click.BadParameter(
        f"{text.strip()!r} is no length of time: write 90 (seconds), 90s, 2h, 1h30m"
    )


def instant(text: str) -> datetime:
    """Read a moment with its offset from UTC, as in RFC 3339: `2027-01-31T08:00:00Z`.

    One without an offset is refused: nobody could tell whose eight o'clock it is.
    """
    text = text.strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no moment: write 2027-01-31T08:00:00Z") from None
    if moment.utcoffset() is None:
        raise click.BadParameter(f"{text!r} has no offset from UTC: add Z, or one such as +02:00")
    return moment


def rate(text: str) -> float:
    """Read how many in how much time, as so many a second: `100/s`, `600/min`, `5000/h`, `100`."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise click.BadParameter(f"{text!r} is no rate: write 100/s, 600/min or 5000/h")
    return float(found[1]) / UNITS[found[2] or "s"].total_seconds()


def starts(text: str) -> tuple[int, timedelta]:
    """Read how many may start in how much time: `100/60s`, `10/s`, `5000/h`."""
    count, parted, period = text.strip().partition("/")
    try:
        length = UNITS.get(period) or length_of(period)
    except OverflowError:
        length = None
    if not (parted and length and re.fullmatch("[0-9]{1,9}", count)):
        raise click.BadParameter(f"{text!r} is no such rate: write 100/60s, 10/s or 5000/h")
    return int(count), length


def pair(text: str) -> tuple[str, str]:
    """Read `NAME=VALUE`; only the first `=` parts them."""
    name, parted, value = text.partition("=")
    if not parted:
        raise click.BadParameter(f"{text!r} has no value: write NAME=VALUE")
    return name, value
