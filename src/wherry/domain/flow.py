"""The flow of tasks: how many went where, how long they waited and ran, how many are in a state.

How to ask, by `wherry.commands.flow` and any transport (quick, whatever the queues hold):

    flow = await transport.call(ReadFlow(seconds=3600, points=60))
    [point.counts["succeeded"] / flow.width_seconds for point in flow.points]     # tasks a second
    [point.wait.percentile(0.95) for point in flow.points]                        # seconds or None
    states = await transport.call(CountStates())
    sum(count.dead for count in states.counts if count.queue == "mail")
    totals = await transport.call(ReadTotals())                                   # for /metrics

What is counted is what was committed. It is seen when it has been summed up, some seconds later;
`tallied_seconds` says how old the newest sum is, None if there has never been one. There are no
more than PAIRS_MOST queues and types: tasks of others stand together under queue "" and type "",
shown as OTHER.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

# What is counted as it happens; these only grow. `dead`, `failed` and `canceled` count tasks that
# ended so. `retried`: failed, and back in the queue; `lost`: attempts whose lease ran out, whatever
# became of their tasks.
COUNTED: Final = (
    *("enqueued", "requeued", "succeeded", "failed", "dead", "canceled"),
    *("retried", "snoozed", "released", "lost"),
)
# Changes of how many are in a state, which may be less than nothing.
MOVED: Final = (
    *("live", "delayed", "parked"),
    *("left_succeeded", "left_failed", "left_dead", "left_canceled"),
)
# The upper ends of the buckets, which SQL repeats; a last bucket has what took longer.
BOUNDS_SECONDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
)
PAIRS_MOST: Final = 1000
POINTS_MOST: Final = 500
# How the pair of two empty names is shown.
OTHER: Final = "(other)"
# Sums of minutes are kept so long, and those of hours.
MINUTES_FOR_SECONDS: Final = 2 * 86_400
# What is longer is read from hours: two days of minutes of a hundred busy pairs took two seconds.
_SHOWN_BY_MINUTES_SECONDS: Final = 6 * 3600
HOURS_FOR_SECONDS: Final = 60 * 86_400

_NONE: Final[tuple[int, ...]] = (0,) * (len(BOUNDS_SECONDS) + 1)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How long tasks took: how many in each bucket, and the seconds of all of them together."""

    counts: tuple[int, ...] = _NONE
    seconds: float = 0.0

    @property
    def count(self) -> int:
        """How many tasks."""
        return sum(self.counts)

    @property
    def average(self) -> float | None:
        """Seconds a task, None if there is none."""
        return self.seconds / self.count if self.count else None

    def percentile(self, share: float) -> float | None:
        """The seconds in which *share* (0 to 1) of the tasks were through, None if there is none.

        Within a bucket they are taken to be spread evenly; what took longer than the last bound
        is taken for that bound.
        """
        rank = share * self.count
        before = 0
        for bucket, (n, high) in enumerate(zip(self.counts, BOUNDS_SECONDS, strict=False)):
            if n and before + n >= rank:
                low = BOUNDS_SECONDS[bucket - 1] if bucket else 0.0
                return low + (high - low) * max(0.0, rank - before) / n
            before += n
        return BOUNDS_SECONDS[-1] if self.count else None

    def __add__(self, other: Histogram) -> Histogram:
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Histogram(counts, self.seconds + other.seconds)


@dataclass(frozen=True, slots=True)
class Sums:
    """What was counted: `counts` has each of COUNTED; `wait` from due to leased, `run` from there.

    Both are told when the attempt ends, whichever way but a release.
    """

    counts: Mapping[str, int]
    wait: Histogram
    run: Histogram

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]]) -> Sums:
        """From rows of kind, bucket, n and seconds; kinds that nobody is told are passed over."""
        counts: dict[str, int] = dict.fromkeys(COUNTED, 0)
        buckets: dict[str, list[int]] = {"wait": list(_NONE), "run": list(_NONE)}
        seconds = dict.fromkeys(buckets, 0.0)
        for kind, bucket, n, took in rows:
            if kind in counts:
                counts[kind] += n
            elif kind in buckets and 0 <= bucket < len(_NONE):
                buckets[kind][bucket] += n
                seconds[kind] += took
        wait, run = (Histogram(tuple(buckets[kind]), seconds[kind]) for kind in buckets)
        return cls(MappingProxyType(counts), wait, run)


@dataclass(frozen=True, slots=True)
class Point:
    """What happened from `at` on, for the width of the flow's points; else as Sums."""

    at: datetime
    counts: Mapping[str, int]
    wait: Histogram
    run: Histogram


@dataclass(frozen=True, slots=True)
class Flow:
    """A line of points, the oldest first, without a gap; the last one is not over yet.

    What committed after `summed_until` is not in it yet: a point that ends later may still grow.
    """

    points: tuple[Point, ...]
    width_seconds: int
    tallied_seconds: float | None
    summed_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class LinePoint:
    """How many came (anew, or again by hand) from `at` on, how many succeeded, and ended badly."""

    at: datetime
    came: int
    succeeded: int
    bad: int


@dataclass(frozen=True, slots=True)
class Line:
    """What happened to a queue's or a type's tasks; `wait` and `run` are of the whole time."""

    points: tuple[LinePoint, ...]
    wait: Histogram
    run: Histogram


@dataclass(frozen=True, slots=True)
class Lines:
    """The line of each queue or type that something happened to; else as Flow."""

    lines: Mapping[str, Line]
    width_seconds: int
    summed_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class StateCount:
    """How many tasks of a queue and type are in which state; the sum of all is all there are.

    `delayed` and `parked` are among the `queued`.
    """

    queue: str
    type: str
    queued: int = 0
    delayed: int = 0
    parked: int = 0
    leased: int = 0
    succeeded: int = 0
    failed: int = 0
    dead: int = 0
    canceled: int = 0

    @property
    def ready(self) -> int:
        """How many are next in turn."""
        return max(0, self.queued - self.delayed - self.parked)


@dataclass(frozen=True, slots=True)
class States:
    """The counts of each queue and type, and how long the longest due of a queue has waited.

    `oldest_due_seconds` looks at the first ready task of each priority; a queue without one is not
    in it. `leased_at_least`: there are more leased tasks than are counted one by one; the rest of
    them is among the queued.
    """

    counts: tuple[StateCount, ...]
    oldest_due_seconds: Mapping[str, float]
    leased_at_least: bool
    tallied_seconds: float | None


@dataclass(frozen=True, slots=True)
class Total:
    """Everything that was ever counted of a queue and type; else as Sums."""

    queue: str
    type: str
    counts: Mapping[str, int]
    wait: Histogram
    run: Histogram


@dataclass(frozen=True, slots=True)
class Totals:
    """What only grows, whatever is purged, by queue and type."""

    totals: tuple[Total, ...]
    tallied_seconds: float | None


@dataclass(frozen=True, slots=True)
class Grid:
    """Which sums a flow is read from, and how its points lie."""

    step: str
    width_seconds: int
    points: int


def grid(*, seconds: int, points: int) -> Grid:
    """Choose the sums and the width that show *seconds* in no more than about *points* points.

    A width is a whole number of minutes or of hours. Raises ValueError for what cannot be shown.
    """
    if not 1 <= points <= POINTS_MOST:
        raise ValueError(f"points: 1 to {POINTS_MOST}, not {points}")
    if not 1 <= seconds <= HOURS_FOR_SECONDS:
        raise ValueError(f"seconds: 1 to {HOURS_FOR_SECONDS} (sixty days), not {seconds}")
    step, size = ("minute", 60)
    if seconds > _SHOWN_BY_MINUTES_SECONDS or seconds // points >= 3600:
        step, size = ("hour", 3600)
    width = size * -(-seconds // (points * size))
    return Grid(step, width, -(-seconds // width))
