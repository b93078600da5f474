"""Axes have the ticks a person would choose, and a drawing says what its numbers say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wherry.domain.flow import COUNTED, Flow, Histogram, Point
from wherry.server.dashboard import pictures, words
from wherry.server.dashboard.charts import HEIGHT, WIDTH, Mark, Series, bars, draw, spark
from wherry.server.dashboard.scales import even, ladder

START = datetime(2030, 1, 1, tzinfo=UTC)


def times(n: int) -> list[datetime]:
    return [START + timedelta(minutes=each) for each in range(n)]


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, ("0", "1")),
        (4, ("0", "1", "2", "3", "4")),
        (7.3, ("0", "2", "4", "6", "8")),
        (950, ("0", "250", "500", "750", "1,000")),
        (120_000, ("0", "50k", "100k", "150k")),
    ],
)
def test_an_axis_ends_at_a_round_number(most: float, ticks: tuple[str, ...]) -> None:
    axis = even(most)

    assert axis.ticks == ticks
    assert axis.at(0) == 0
    assert 0 <= axis.at(most) <= 1


def test_an_axis_of_whole_things_has_whole_steps() -> None:
    assert even(2, whole=True).ticks == ("0", "1", "2")


def test_a_ladder_shows_milliseconds_and_hours_at_once() -> None:
    axis = ladder(0.02, 3000)

    assert (axis.ticks[0], axis.ticks[-1]) == ("10 ms", "1 h")
    places = [axis.at(seconds) for seconds in (0.001, 0.02, 0.5, 40, 3000, 10_000)]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0.0, 1.0)


def test_a_line_goes_through_its_values_and_breaks_at_a_gap() -> None:
    drawn = draw("x", "X", times=times(5), series=[Series("a", "s1", [0, 4, None, 2, 4])])

    [line] = drawn.pieces
    assert line.path == (f"M0.0 {HEIGHT}L250.0 0.0M750.0 {HEIGHT / 2}L{WIDTH} 0.0")
    assert [cells for _, cells in drawn.rows] == [("0",), ("4",), ("–",), ("2",), ("4",)]
    assert not drawn.is_empty


def flow(*came: int, summed_until: datetime | None = None) -> Flow:
    points = [
        Point(at, dict.fromkeys(COUNTED, 0) | {"enqueued": n}, Histogram(), Histogram())
        for at, n in zip(times(len(came)), came, strict=True)
    ]
    return Flow(tuple(points), 60, 1.0, summed_until)


@pytest.mark.parametrize(
    ("summed_seconds", "shown"),
    [
        # The third minute is over at 180 s, and the fourth is not over.
        (None, [60, 60, 60]),
        (181, [60, 60, 60]),
        (179, [60, 60]),
        # Nothing is summed up any more: that is no reason to hide it.
        (1, [60, 60]),
    ],
)
def test_a_minute_that_is_not_summed_up_is_not_drawn_as_a_fall(
    summed_seconds: int | None, shown: list[int]
) -> None:
    until = None if summed_seconds is None else START + timedelta(seconds=summed_seconds)

    drawn = pictures.throughput(flow(60, 60, 60, 5, summed_until=until), ())

    assert [cells[0] for _, cells in drawn.rows] == ["1/s"] * len(shown)


def test_rates_that_stand_together_have_one_unit() -> None:
    busy = pictures.throughput(flow(600, 6, 0, 0), ())
    calm = pictures.throughput(flow(30, 6, 0, 0), ())

    assert [cells[0] for _, cells in busy.rows] == ["10/s", "0.1/s", "0/s"]
    assert [cells[0] for _, cells in calm.rows] == ["30/min", "6/min", "0/min"]
    assert words.rate_unit(None, 0.2, 3.0) == "s"
    assert [words.rate(n, "min") for n in (250.0, 0.1, 0.004)] == ["15k/min", "6/min", "0.24/min"]
    assert [words.rate(n, "s") for n in (12_345.0, 12.34, 0.05)] == ["12.3k/s", "12.3/s", "0.05/s"]


def test_the_length_of_a_point_is_said_in_words() -> None:
    assert [words.each(n) for n in (60, 300, 900, 3600, 7200)] == [
        *("minute", "5 minutes", "15 minutes", "hour", "2 hours"),
    ]


def test_small_bars_show_the_least_too() -> None:
    [piece] = bars([0, 1, 1000])

    assert piece.path.count("M") == 2
    assert f"V{HEIGHT * 0.92:.1f}" in piece.path


def test_bars_stand_on_one_another() -> None:
    series = [Series("a", "s1", [1, 0], "stack"), Series("b", "s2", [3, 2], "stack")]

    below, above = draw("x", "X", times=times(2), series=series).pieces

    assert "V180.0" in below.path
    # From the top of the first one to four of four.
    assert above.path.startswith("M0.0 180.0V0.0")
    # Nothing is no bar.
    assert below.path.count("Z") == 1


def test_what_happened_outside_of_the_time_has_no_mark() -> None:
    marks = [Mark(START - timedelta(hours=1), "before"), Mark(START + timedelta(minutes=1), "in")]

    drawn = draw("x", "X", times=times(3), series=[Series("a", "s1", [1, 1, 1])], marks=marks)

    assert drawn.marks == (("500.0", "in"),)


@pytest.mark.parametrize("n", [0, 1])
def test_a_chart_of_hardly_anything_is_drawn(n: int) -> None:
    drawn = draw("x", "X", times=times(n), series=[Series("a", "s1", [5.0] * n, "area")])

    assert drawn.is_empty == (n == 0)


def test_a_chart_without_a_value_says_so() -> None:
    assert draw("x", "X", times=times(3), series=[Series("a", "s1", [None] * 3)]).is_empty


def test_a_small_line_of_nothing_lies_on_the_ground() -> None:
    assert spark([0.0, 0.0])[-1].path == f"M0.0 {HEIGHT}L{WIDTH} {HEIGHT}"
