"""Draws charts: from numbers to the paths of an SVG, and the table that says the same.

A drawing is 1000 by 240 and is stretched to its place, with lines that keep their width; the words
on its axes stand beside it as HTML, so that they keep their size on a phone. Its table is what a
screen reader gets, and what the script reads for the tip under the pointer: numbers stand once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from wherry.server.dashboard import words
from wherry.server.dashboard.scales import Say, Scale, even

WIDTH: Final = 1000.0
HEIGHT: Final = 240.0
_X_TICKS: Final = 5
_BAR_SHARE: Final = 0.72

Value: TypeAlias = float | None
Shape: TypeAlias = Literal["line", "area", "stack", "band"]


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart; None is a gap. `colour` is a class of the style sheet, such as `s1`.

    `stack`: bars on one another, in their order. `band`: the area between it and the series
    before it.
    """

    label: str
    colour: str
    values: Sequence[Value]
    shape: Shape = "line"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a moment, such as a deploy."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """One path of a drawing, and the classes that it has."""

    classes: str
    path: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart to be put into a page. `rows` are the table: a moment, and a text for each series."""

    id: str
    title: str
    says: str
    pieces: tuple[Piece, ...]
    marks: tuple[tuple[str, str], ...]
    y_ticks: tuple[str, ...]
    x_ticks: tuple[datetime, ...]
    labels: tuple[tuple[str, str], ...]
    rows: tuple[tuple[datetime, tuple[str, ...]], ...]
    is_empty: bool


def draw(
    id: str,
    title: str,
    *,
    times: Sequence[datetime],
    series: Sequence[Series],
    scale: Scale | None = None,
    say: Say = words.short,
    marks: Sequence[Mark] = (),
    says: str = "",
) -> Drawn:
    """Return a chart of *series* over *times*, evenly spaced moments; *says* is for the blind."""
    tops = _tops(series)
    most = max((value for top in tops for value in top if value is not None), default=0.0)
    axis = scale or even(most, say)
    pieces: list[Piece] = []
    before: Sequence[Value] = []
    for each, top in zip(series, tops, strict=True):
        pieces += _pieces(each, top, before, axis)
        before = top
    rows = tuple(
        (at, tuple(_said(each.values[n], say) for each in series)) for n, at in enumerate(times)
    )
    return Drawn(
        id=id,
        title=title,
        says=says or f"{title}, from {words.instant(times[0])} to {words.instant(times[-1])}"
        if times
        else title,
        pieces=tuple(pieces),
        marks=_placed(marks, times),
        y_ticks=tuple(reversed(axis.ticks)),
        x_ticks=_ticks(times),
        labels=tuple((each.label, each.colour) for each in series),
        rows=rows,
        is_empty=all(value is None for each in series for value in each.values),
    )


def spark(values: Sequence[Value]) -> tuple[Piece, ...]:
    """Return a small line with the area below it, for a row of a list."""
    most = max((value for value in values if value is not None), default=0.0)
    axis = Scale((), lambda value: 0.94 * value / most if most else 0.0)
    return tuple(_pieces(Series("", "", values, "area"), values, (), axis))


def bars(values: Sequence[int]) -> tuple[Piece, ...]:
    """Return a small row of bars, each in its part of the width; the least is still seen."""
    most, step = max(values, default=0), WIDTH / max(1, len(values))
    path: list[str] = []
    for n, value in enumerate(values):
        if value:
            high = HEIGHT * (1 - max(0.08, 0.94 * value / most))
            path.append(
                f"M{step * n + step * 0.14:.1f} {HEIGHT:.1f}V{high:.1f}"
                f"H{step * n + step * 0.86:.1f}V{HEIGHT:.1f}Z"
            )
    return (Piece("bars s3", "".join(path)),)


def _tops(series: Sequence[Series]) -> list[Sequence[Value]]:
    """Return where each series is drawn: what is stacked stands on those before it."""
    tops: list[Sequence[Value]] = []
    ground: list[float] = []
    for each in series:
        if each.shape != "stack":
            tops.append(each.values)
            continue
        ground = ground or [0.0] * len(each.values)
        ground = [low + (value or 0.0) for low, value in zip(ground, each.values, strict=True)]
        tops.append(ground)
    return tops


def _pieces(
    series: Series, top: Sequence[Value], before: Sequence[Value], axis: Scale
) -> list[Piece]:
    if series.shape == "stack":
        return [Piece(f"bars {series.colour}", _bars(top, before, axis))]
    runs = _runs(top)
    line = "".join(_through(_points(run, top, axis)) for run in runs)
    pieces: list[Piece] = []
    if series.shape != "line":
        ground = before if series.shape == "band" else ()
        area = "".join(_area(run, top, ground, axis) for run in runs)
        pieces.append(Piece(f"area {series.colour} is-{series.shape}", area))
    pieces.append(Piece(f"line {series.colour} is-{series.shape}", line))
    return pieces


def _bars(top: Sequence[Value], ground: Sequence[Value], axis: Scale) -> str:
    step = WIDTH / max(1, len(top) - 1)
    path: list[str] = []
    for n, value in enumerate(top):
        low = (ground[n] if ground else None) or 0.0
        if value is None or value <= low:
            continue
        left = max(0.0, step * n - step * _BAR_SHARE / 2)
        right = min(WIDTH, step * n + step * _BAR_SHARE / 2)
        high, foot = HEIGHT * (1 - axis.at(value)), HEIGHT * (1 - axis.at(low))
        path.append(f"M{left:.1f} {foot:.1f}V{high:.1f}H{right:.1f}V{foot:.1f}Z")
    return "".join(path)


def _runs(values: Sequence[Value]) -> list[range]:
    """Return the stretches without a gap."""
    runs: list[range] = []
    start: int | None = None
    for n, value in enumerate([*values, None]):
        if value is None:
            if start is not None:
                runs.append(range(start, n))
            start = None
        elif start is None:
            start = n
    return runs


def _points(run: range, values: Sequence[Value], axis: Scale) -> list[tuple[float, float]]:
    last = max(1, len(values) - 1)
    return [(WIDTH * n / last, HEIGHT * (1 - axis.at(values[n] or 0.0))) for n in run]


def _through(points: list[tuple[float, float]]) -> str:
    if len(points) == 1:
        # A lonely point is a short dash, or nobody would see it.
        [(x, y)] = points
        points = [(max(0.0, x - 3), y), (min(WIDTH, x + 3), y)]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _area(run: range, top: Sequence[Value], ground: Sequence[Value], axis: Scale) -> str:
    above = _points(run, top, axis)
    below = _points(run, ground, axis) if ground else [(x, HEIGHT) for x, _ in above]
    if len(above) == 1:
        return ""
    return _through([*above, *reversed(below)]) + "Z"


def _placed(marks: Sequence[Mark], times: Sequence[datetime]) -> tuple[tuple[str, str], ...]:
    if len(times) < 2:
        return ()
    length = (times[-1] - times[0]).total_seconds()
    placed = [((mark.at - times[0]).total_seconds() / length, mark.text) for mark in marks]
    return tuple((f"{WIDTH * x:.1f}", text) for x, text in placed if 0 <= x <= 1)


def _ticks(times: Sequence[datetime]) -> tuple[datetime, ...]:
    if len(times) < 2:
        return tuple(times)
    step = (times[-1] - times[0]) / (_X_TICKS - 1)
    return tuple(times[0] + step * n for n in range(_X_TICKS))


def _said(value: Value, say: Say) -> str:
    return "–" if value is None else say(value)


def clock(at: datetime, length: timedelta) -> str:
    """Return a moment for an axis of that length."""
    return f"{at:%H:%M}" if length < timedelta(days=1.5) else f"{at:%d %b %H:%M}"
