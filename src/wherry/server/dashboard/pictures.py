"""The charts that pages share: what they show of a flow, and in which colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from wherry.domain.flow import Flow, Histogram, Line, Point
from wherry.domain.worker import WorkerSeen
from wherry.server.dashboard.charts import Drawn, Mark, Piece, Series, draw, spark
from wherry.server.dashboard.ranges import Range
from wherry.server.dashboard.scales import Scale, even, ladder
from wherry.server.dashboard.words import plural, rate, short, span

POINTS: Final = {"15m": 15, "1h": 60, "6h": 72, "24h": 96, "7d": 84}
# Workers that start within so long of one another start for one reason.
_ONE_DEPLOY: Final = timedelta(minutes=5)


def points_of(range: Range) -> int:
    """Return in how many points a range is shown."""
    return POINTS[range.name]


def over(flow: Flow) -> tuple[Point, ...]:
    """Return the points that are over; the newest would look like a fall of everything."""
    return flow.points[:-1] if len(flow.points) > 2 else flow.points


def throughput(flow: Flow, marks: Sequence[Mark], *, id: str = "throughput") -> Drawn:
    """Draw what came, what ended well, and what ended badly, a second."""
    points, width = over(flow), flow.width_seconds

    def line(*kinds: str) -> list[float | None]:
        return [sum(point.counts[kind] for kind in kinds) / width for point in points]

    series = (
        Series("In", "s1", line("enqueued", "requeued")),
        Series("Succeeded", "s2", line("succeeded"), "area"),
        Series("Failed for good", "s3", line("failed", "dead"), "area"),
    )
    most = max((v for each in series for v in each.values if v is not None), default=0.0)
    return draw(
        id,
        "Throughput",
        times=[point.at for point in points],
        series=series,
        scale=_rates(most),
        say=rate,
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
        (sum(v or 0 for v in at) for at in zip(*(each.values for each in series), strict=True)),
        default=0.0,
    )
    each = span(flow.width_seconds)
    return draw(
        id,
        f"Errors in each {each}",
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
    """Draw a small line of what ended, for a list."""
    points = line.points[:-1]
    return spark([float(point.succeeded + point.bad) for point in points])


def per_minute(line: Line) -> float:
    """Return how many tasks ended a second, in the last minutes that are over."""
    points = line.points[:-1][-5:]
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


def _rates(most: float) -> Scale:
    """Return an axis in tasks a second, or a minute where that makes rounder numbers."""
    if most >= 1.5:
        return even(most, lambda value: f"{short(value)}/s" if value >= 10 else f"{value:g}/s")
    minutes = even(most * 60, lambda value: f"{value:g}/min")
    return Scale(minutes.ticks, lambda value: minutes.at(value * 60))


def _slots(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 10 else short(value)
