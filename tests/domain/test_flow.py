"""Percentiles come from buckets; a flow's points lie on whole minutes or hours."""

from __future__ import annotations

import pytest

from wherry.domain.flow import (
    BOUNDS_SECONDS,
    COUNTED,
    HOURS_FOR_SECONDS,
    POINTS_MOST,
    Grid,
    Histogram,
    Sums,
    grid,
)


def histogram(**counts: int) -> Histogram:
    """Return one with so many tasks in the buckets of that number."""
    numbers = {int(name[1:]): n for name, n in counts.items()}
    buckets = range(len(BOUNDS_SECONDS) + 1)
    return Histogram(tuple(numbers.get(bucket, 0) for bucket in buckets), 7.0)


@pytest.mark.parametrize(
    ("counts", "share", "seconds"),
    [
        ({}, 0.5, None),
        ({"b0": 10}, 0.5, 0.0005),
        ({"b0": 10}, 1.0, 0.001),
        ({"b1": 4}, 0.25, 0.001375),
        ({"b0": 50, "b9": 50}, 0.5, 0.001),
        ({"b0": 50, "b9": 50}, 0.75, 0.75),
        ({"b0": 1, "b18": 99}, 0.95, 3600.0),
        ({"b3": 1}, 0.0, 0.005),
    ],
)
def test_a_percentile_lies_within_its_bucket(
    counts: dict[str, int], share: float, seconds: float | None
) -> None:
    found = histogram(**counts).percentile(share)

    assert found == (None if seconds is None else pytest.approx(seconds))


def test_percentiles_rise_with_their_share() -> None:
    made = histogram(b0=3, b2=1, b7=20, b18=2)

    found = [made.percentile(share / 100) or 0.0 for share in range(101)]

    assert found == sorted(found)
    assert found[-1] == BOUNDS_SECONDS[-1]


def test_histograms_add_up() -> None:
    both = histogram(b0=1, b3=2) + histogram(b3=5)

    assert (both.count, both.counts[3], both.seconds) == (8, 7, 14.0)
    assert both.average == 14.0 / 8


def test_sums_have_every_kind_and_pass_over_what_they_do_not_know() -> None:
    sums = Sums.of(
        [
            ("succeeded", 0, 5, 0.0),
            ("left_dead", 0, 2, 0.0),
            ("wait", 3, 4, 0.03),
            ("run", 99, 1, 1),
        ]
    )

    assert sums.counts == {**dict.fromkeys(COUNTED, 0), "succeeded": 5}
    assert (sums.wait.counts[3], sums.wait.seconds, sums.run.count) == (4, 0.03, 0)


@pytest.mark.parametrize(
    ("seconds", "points", "lie"),
    [
        (3600, 60, Grid("minute", 60, 60)),
        (3600, 500, Grid("minute", 60, 60)),
        (6 * 3600, 60, Grid("minute", 360, 60)),
        (2 * 86_400, 48, Grid("hour", 3600, 48)),
        (6 * 3600 + 1, 420, Grid("hour", 3600, 7)),
        (7 * 86_400, 100, Grid("hour", 7200, 84)),
        (1, 1, Grid("minute", 60, 1)),
    ],
)
def test_points_are_whole_minutes_or_hours(seconds: int, points: int, lie: Grid) -> None:
    assert grid(seconds=seconds, points=points) == lie


@pytest.mark.parametrize(
    ("seconds", "points"),
    [(0, 1), (HOURS_FOR_SECONDS + 1, 1), (60, 0), (60, POINTS_MOST + 1)],
)
def test_what_is_not_kept_or_too_much_is_refused(seconds: int, points: int) -> None:
    with pytest.raises(ValueError, match=r"^(seconds|points): 1 to "):
        grid(seconds=seconds, points=points)
