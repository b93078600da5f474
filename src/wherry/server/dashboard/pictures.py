"""The charts that pages share: what they show of a flow, and in which colours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

from wherry.domain.flow import Flow, Histogram, Line, LinePoint, Lines, Point
from wherry.domain.worker import WorkerSeen
from wherry.server.dashboard.charts import Drawn, Mark, Piece, Series, draw, spark
from wherry.server.dashboard.ranges import Range
from wherry.server.dashboard.scales import Scale, even, ladder
from wherry.server.dashboard.words import RateUnit, each, plural, rate, rate_unit, short, span

POINTS: Final = {"15m": 15, "1h": 60, "6h": 72, "24h": 96, "7d": 84}
# Workers that start within so long of one another start for one reason.
_ONE_DEPLOY: Final = timedelta(minutes=5)

P = TypeVar("P", Point, LinePoint)


def points_of(range: Range) -> int:
    """Return in how many points a range is shown."""
    return POINTS[range.name]


def over(flow: Flow) -> tuple[Point, ...]:
    """Return the points that are over; the newest would look like a fall of everything."""
    return _settled(flow.points, flow.width_seconds, flow.summed_until)


def settled(lines: Lines) -> Mapping[str, Line]:
    """Return the line of each queue or type with the points that are over."""
    return {
        name: replace(line, points=_settled(line.points, lines.width_seconds, lines.summed_until))
        for name, line in lines.lines.items()
    }


def _settled(
    points: tuple[P, ...], width_seconds: int, summed_until: datetime | None
) -> tuple[P, ...]:
    """Leave the point out that is not over, and the one before if it is not summed up yet.

    No more: if nothing is summed up any more, that is a fall that is to be seen.
    """
    if len(points) < 3:
        return points
    ends_at = points[-2].at + timedelta(seconds=width_seconds)
    is_late = summed_until is not None and summed_until < ends_at
    return points[:-2] if is_late else points[:-1]


def unit_of(*flows: Flow, lines: Mapping[str, Line] | None = None) -> RateUnit:
    """Return the one unit in which a page says how many tasks come and go."""
    rates = [most_in(flow) for flow in flows]
    return rate_unit(*rates, *(ended_rate(line) for line in (lines or {}).values()))


def most_in(flow: Flow) -> float:
    """Return how many tasks came, or ended in one way, a second where it was most."""
    kinds = (("enqueued", "requeued"), ("succeeded",), ("failed", "dead"))
    most = max(
        (sum(point.counts[kind] for kind in each) for point in over(flow) for each in kinds),
        default=0,
    )
    return most / flow.width_seconds


def throughput(
    flow: Flow, marks: Sequence[Mark], *, id: str = "throughput", unit: RateUnit | None = None
) -> Drawn:
    """Draw what came, what ended well, and what ended badly, in that unit."""
    points, width = over(flow), flow.width_seconds

    def line(*kinds: str) -> list[float | None]:
        return [sum(point.counts[kind] for kind in kinds) / width for point in points]

    series = (
        Series("In", "s1", line("enqueued", "requeued")),
        Series("Succeeded", "s2", line("succeeded"), "area"),
        Series("Failed for good", "s3", line("failed", "dead"), "area"),
    )
    said = unit or unit_of(flow)
    return draw(
        id,
        "Throughput",
        times=[point.at for point in points],
        series=series,
        scale=_rates(most_in(flow), said),
        say=partial(rate, unit=said),
        marks=marks,
        says="Tasks that came, succeeded and failed for good, a second",
    )


def retries(flow: Flow, marks: Sequence[Mark], *, id: str = "retries") -> Drawn:
    """Draw what did not go well: attempts that are retried, leases lost, tasks that ended badly."""
    points = over(flow)

    def line(*kinds: str) -> list[float | None]:
        return [float(sum(point.counts[kind] for kind in kinds)) for point in points]

    series = (
        Series("Retried", "s4", line("retried"), "stack"),
        Series("Lost", "s5", line("lost"), "stack"),
        Series("Failed for good", "s3", line("failed", "dead"), "stack"),
    )
    most = max(
        (sum(v or 0 for v in at) for at in zip(*(one.values for one in series), strict=True)),
        default=0.0,
    )
    return draw(
        id,
        f"Errors in each {each(flow.width_seconds)}",
        times=[point.at for point in points],
        series=series,
        scale=even(most, short, whole=True),
        say=short,
        marks=marks,
        says="Attempts that were retried or lost, and tasks that failed for good",
    )


def waiting(flow: Flow, marks: Sequence[Mark], *, id: str = "waiting") -> Drawn:
    """Draw how long due tasks waited for a worker."""
    return _spread(flow, marks, id, "Time in the queue", lambda point: point.wait)


def running(flow: Flow, marks: Sequence[Mark], *, id: str = "running") -> Drawn:
    """Draw how long handlers ran."""
    return _spread(flow, marks, id, "Run time", lambda point: point.run)


def busy(flow: Flow, marks: Sequence[Mark], *, id: str = "busy") -> Drawn:
    """Draw how many tasks ran at a time, on average."""
    points = over(flow)
    values = [point.run.seconds / flow.width_seconds for point in points]
    return draw(
        id,
        "Slots in use",
        times=[point.at for point in points],
        series=(Series("On average", "s1", values, "area"),),
        scale=even(max(values, default=0.0), _slots),
        say=_slots,
        marks=marks,
        says="How many tasks ran at a time, on average",
    )


def came(line: Line) -> tuple[Piece, ...]:
    """Draw a small line of what ended, for a list; of points that are over."""
    return spark([float(point.succeeded + point.bad) for point in line.points])


def ended_rate(line: Line) -> float:
    """Return how many tasks ended a second, in the last five points, which are over."""
    points = line.points[-5:]
    if len(line.points) < 2:
        return 0.0
    width = (line.points[1].at - line.points[0].at).total_seconds()
    return sum(point.succeeded + point.bad for point in points) / (width * len(points))


def deploys(workers: Sequence[WorkerSeen], *, since: datetime) -> list[Mark]:
    """Return when workers started: those that started together as one mark."""
    marks: list[Mark] = []
    group: list[WorkerSeen] = []
    for worker in sorted(workers, key=lambda worker: worker.started_at):
        if worker.started_at < since:
            continue
        if group and worker.started_at - group[0].started_at > _ONE_DEPLOY:
            marks.append(_mark(group))
            group = []
        group.append(worker)
    if group:
        marks.append(_mark(group))
    return marks


def _mark(group: Sequence[WorkerSeen]) -> Mark:
    names = ", ".join(worker.name for worker in group[:3])
    more = f" and {len(group) - 3} more" if len(group) > 3 else ""
    return Mark(group[0].started_at, f"{plural(len(group), 'worker')} started: {names}{more}")


def _spread(
    flow: Flow,
    marks: Sequence[Mark],
    id: str,
    title: str,
    of: Callable[[Point], Histogram],
) -> Drawn:
    points = over(flow)

    def line(share: float) -> list[float | None]:
        return [of(point).percentile(share) for point in points]

    half, most, nearly_all = line(0.5), line(0.95), line(0.99)
    known = [value for value in (*half, *nearly_all) if value is not None]
    series = (
        Series("p50", "s2", half),
        Series("p95", "s1", most, "band"),
        Series("p99", "s5", nearly_all, "band"),
    )
    return draw(
        id,
        title,
        times=[point.at for point in points],
        series=series,
        scale=ladder(min(known, default=0.01), max(known, default=1.0)),
        say=span,
        marks=marks,
        says=f"{title}: half of the tasks, 95 and 99 of a hundred were within this",
    )


def _rates(most: float, unit: RateUnit) -> Scale:
    """Return an axis in tasks a second, or a minute."""
    if unit == "s":
        return even(most, lambda value: f"{short(value)}/s" if value >= 10 else f"{value:g}/s")
    minutes = even(most * 60, lambda value: f"{value:g}/min")
    return Scale(minutes.ticks, lambda value: minutes.at(value * 60))


def _slots(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 10 else short(value)
