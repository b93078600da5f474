"""How the pages say numbers, times and lengths of time.

Every number that the database may hold is shown exactly somewhere: what is shortened here carries
the whole of it as its title.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

_UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e4, "k"))
_SPANS: Final = ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))
RateUnit: TypeAlias = Literal["s", "min"]
_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: float | None) -> str:
    """Return a whole number with its thousands parted."""
    return "–" if value is None else f"{value:,.0f}"


def short(value: float | None) -> str:
    """Return a number in four characters or so: 950, 12.3k, 4.1M."""
    if value is None:
        return "–"
    for unit, letter in _UNITS:
        if abs(value) >= unit:
            scale = 1e3 if letter == "k" else unit
            return f"{value / scale:.1f}".removesuffix(".0") + letter
    return f"{value:,.0f}"


def rate_unit(*per_second: float | None) -> RateUnit:
    """Return the unit of rates that stand together: a second, or a minute if all are little.

    Two units in one place would be read as one.
    """
    return "s" if max((each or 0.0 for each in per_second), default=0.0) >= 0.95 else "min"


def rate(per_second: float | None, unit: RateUnit | None = None) -> str:
    """Return so many a second or a minute; in the unit that fits, if none is said."""
    if per_second is None:
        return "–"
    unit = unit or rate_unit(per_second)
    value = per_second * (60 if unit == "min" else 1)
    if value >= 100:
        return f"{short(value)}/{unit}"
    if value == 0 or (value >= 9.95 and unit == "min"):
        return f"{value:.0f}/{unit}"
    said = f"{value:.1f}" if value >= 0.95 else f"{value:.2g}"
    return f"{said.removesuffix('.0')}/{unit}"


def each(seconds: float) -> str:
    """Return a length of time as it stands behind "each": minute, 5 minutes, hour."""
    n, unit = (seconds / 3600, "hour") if seconds >= 3600 else (seconds / 60, "minute")
    return unit if n == 1 else f"{n:g} {unit}s"


def span(seconds: float | None) -> str:
    """Return a length of time in two units at most: 350 ms, 4.2 s, 3m 20s, 2h 5m, 4d 3h."""
    if seconds is None:
        return "–"
    if seconds < 0:
        # Clocks differ; nothing lasts for less than nothing.
        seconds = 0.0
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms".replace(".0 ", " ") if seconds else "0 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    for unit, letter, part, part_letter in _SPANS:
        if seconds >= unit:
            whole, rest = divmod(int(seconds), unit)
            more = rest // part
            return f"{whole:,}{letter} {more}{part_letter}" if more else f"{whole:,}{letter}"
    return f"{seconds:.0f} s"


def size(count_bytes: float | None) -> str:
    """Return a number of bytes in a unit that can be read."""
    if count_bytes is None:
        return "–"
    value = float(count_bytes)
    for unit in _BYTES:
        if abs(value) < 1024 or unit == _BYTES[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return ""


def share(value: float | None) -> str:
    """Return a share of one as percent."""
    if value is None:
        return "–"
    return f"{value * 100:.0f}%" if value >= 0.1 or value == 0 else f"{value * 100:.1f}%"


def instant(at: datetime | None) -> str:
    """Return a moment in full, in UTC."""
    return "–" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(at: datetime) -> str:
    """Return a moment for programs."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


def ago(at: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was, or how far ahead it is."""
    if at is None:
        return "–"
    seconds = (now - at).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"in {span(-seconds)}" if seconds < 0 else f"{_whole(seconds)} ago"


def _whole(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 59.5 else span(seconds)


def mark(name: str) -> str:
    """Return letters and digits for a name, whatever is in it: an element is known by them."""
    return hashlib.sha256(name.encode(errors="replace")).hexdigest()[:12]


def plural(n: float, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{n:,.0f} {one if n == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """Return a text with a capital and a full stop."""
    text = text.strip()
    if "_" in text.partition(" ")[0]:
        # A name, which is written as it is.
        return text if text.endswith(".") else f"{text}."
    ends = "" if text.endswith((".", "!", "?", "…", ":")) else "."
    return f"{text[:1].upper()}{text[1:]}{ends}" if text else ""
