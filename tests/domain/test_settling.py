"""Whoever came to wait looks until nobody is left who could not see it."""

from __future__ import annotations

from wherry.domain.settling import Settling


def test_it_is_over_when_all_have_ended_and_not_before_three_looks() -> None:
    settling = Settling(7, 1.0)

    assert [settling.is_over(ended=True) for _ in range(3)] == [False, False, True]


def test_it_goes_on_as_long_as_somebody_is_under_way() -> None:
    settling = Settling(7, 1.0)

    assert not any(settling.is_over(ended=False) for _ in range(100))
    assert settling.is_over(ended=True)


def test_pauses_grow_up_to_the_longest() -> None:
    settling = Settling(7, 0.03)

    assert [settling.next_pause() for _ in range(5)] == [0.005, 0.01, 0.02, 0.03, 0.03]
