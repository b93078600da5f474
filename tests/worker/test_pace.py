"""A worker prefetches by how long handlers take, once it has seen enough of them."""

from __future__ import annotations

import pytest

from wherry.worker.intake import Pace, Wanted, wanted


def paced(*seconds: float) -> Pace:
    pace = Pace()
    for each in seconds:
        pace.add(each)
    return pace


def wanted_by(pace: Pace) -> Wanted:
    return wanted(slots=20, running=0, buffered=0, pace=pace.seconds, ahead_seconds=0.1, most=1000)


def test_nothing_is_prefetched_before_enough_handlers_have_ended() -> None:
    # The first one failed at once, long before any other could end.
    pace = paced(0.0001)

    assert pace.seconds is None
    assert wanted_by(pace) == Wanted(tasks=20, last=20)


def test_a_quick_failure_among_the_first_ones_does_not_decide() -> None:
    pace = paced(0.0001, *[0.05] * 19)

    assert pace.seconds == pytest.approx(0.05, rel=0.15)
    assert wanted_by(pace).tasks < 70


def test_fast_handlers_are_soon_prefetched_for() -> None:
    pace = paced(*[0.001] * 20)

    assert pace.seconds == pytest.approx(0.001)
    assert wanted_by(pace) == Wanted(tasks=1000, last=20)


def test_of_quick_handlers_a_second_lease_is_on_its_way_while_the_first_is_run() -> None:
    pace = paced(*[0.00001] * 20)

    def then(buffered: int) -> Wanted:
        return wanted(
            slots=20, running=1, buffered=buffered, pace=pace.seconds, ahead_seconds=0.1, most=1000
        )

    assert then(1000) == Wanted(tasks=1000, last=0)
    assert then(2000) == Wanted(tasks=0, last=0)


def test_one_long_handler_ends_the_prefetching_at_once() -> None:
    pace = paced(*[0.001] * 100, 2.0)

    assert pace.seconds == pytest.approx(2.0)
    assert wanted_by(pace) == Wanted(tasks=21, last=20)
