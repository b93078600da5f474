"""Numbers as they are read off a process: they can be added up, kept, and sent to another one."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from wherry.telemetry.families import FAMILIES

T = TypeVar("T")

_TRIES = 100


class Buckets(NamedTuple):
    """What a histogram holds: how many in each bucket, and the sum of all values."""

    counts: tuple[int, ...]
    sum: float


class Reading(NamedTuple):
    """One number, or one histogram; `labels` are the values of its family's, in their order."""

    name: str
    labels: tuple[str, ...]
    value: float | Buckets

    @property
    def only_grows(self) -> bool:
        """Whether it counts what happened, so that it outlives whoever counted."""
        return FAMILIES[self.name].kind != "gauge"


class Counted:
    """A histogram that is being counted; of one thread, or under its owner's lock."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> Buckets:
        """Return what was counted so far."""
        return Buckets(tuple(self._counts), self._sum)


def added_up(readings: Iterable[Reading]) -> list[Reading]:
    """Return one reading of each name and labels, as its family says how many of them add up."""
    found: dict[tuple[str, tuple[str, ...]], float | Buckets] = {}
    for name, labels, value in readings:
        before = found.get((name, labels))
        found[name, labels] = value if before is None else _both(name, before, value)
    return [Reading(name, labels, value) for (name, labels), value in found.items()]


def _both(name: str, one: float | Buckets, other: float | Buckets) -> float | Buckets:
    if isinstance(one, Buckets) and isinstance(other, Buckets):
        counts = tuple(a + b for a, b in zip(one.counts, other.counts, strict=True))
        return Buckets(counts, one.sum + other.sum)
    if isinstance(one, Buckets) or isinstance(other, Buckets):
        raise TypeError(f"{name} is a histogram in one reading and a number in another")
    return max(one, other) if FAMILIES[name].of_many == "max" else one + other


def to_json(readings: Iterable[Reading]) -> str:
    """Return one line that `from_json` reads."""
    return json.dumps(list(readings))


def from_json(line: str | bytes) -> list[Reading]:
    """Return the readings of a line of `to_json`. Raises ValueError for any other."""
    try:
        read: list[Any] = json.loads(line)
        return [Reading(name, tuple(labels), _value(value)) for name, labels, value in read]
    except (TypeError, ValueError) as error:
        raise ValueError("these are no readings") from error


def _value(read: Any) -> float | Buckets:
    if isinstance(read, int | float):
        return read
    counts, total = read
    return Buckets(tuple(counts), total)


def steadily(look: Callable[[], T]) -> T:
    """Return what *look* sees of a collection that another thread changes meanwhile.

    CPython refuses to go through one that changes under its hands; then it is looked at again.
    """
    for _ in range(_TRIES):
        try:
            return look()
        except RuntimeError:
            continue
    return look()
