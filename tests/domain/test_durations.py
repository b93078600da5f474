"""Which lengths of time are taken, and in which words the others are refused."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from wherry.domain.durations import LONGEST, number_of_seconds, seconds_from
from wherry.errors import InvalidOption


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (1, 1.0),
        (0.5, 0.5),
        (1e-9, 1e-9),
        (timedelta(minutes=2), 120.0),
        (timedelta(microseconds=1), 1e-6),
        (LONGEST, 36_525 * 86_400.0),
        (36_525 * 86_400, 36_525 * 86_400.0),
    ],
)
def test_timedeltas_and_numbers_of_seconds_are_lengths_of_time(value: Any, seconds: float) -> None:
    assert seconds_from(value, option="delay") == seconds


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1, "must not be negative"),
        (-0.001, "must not be negative"),
        (timedelta(seconds=-1), "must not be negative"),
        (-math.inf, "must not be negative"),
        (-(10**400), "must not be negative"),
        (math.nan, "NaN is none"),
        (math.inf, "must be at most 36525 days (a hundred years)"),
        (2**31 * 1000, "must be at most 36525 days"),
        (2**63, "must be at most 36525 days"),
        (10**400, "must be at most 36525 days"),
        (timedelta.max, "must be at most 36525 days"),
        (True, "must be a timedelta or a number of seconds, not bool"),
        (False, "must be a timedelta or a number of seconds, not bool"),
        ("a", "must be a timedelta or a number of seconds, not str"),
        ("5", "must be a timedelta or a number of seconds, not str"),
        (None, "must be a timedelta or a number of seconds, not NoneType"),
        (1j, "must be a timedelta or a number of seconds, not complex"),
    ],
    ids=lambda value: str(value)[:25],
)
def test_what_is_no_length_of_time_is_refused_by_option_value_and_reason(
    value: Any, reason: str
) -> None:
    with pytest.raises(InvalidOption) as refused:
        seconds_from(value, option="timeout", index=2)

    assert refused.value.option == "timeout"
    assert refused.value.value is value
    assert refused.value.index == 2
    assert reason in refused.value.reason


def test_zero_is_refused_where_it_would_mean_never() -> None:
    with pytest.raises(InvalidOption, match="longer than zero; leave it out for no limit"):
        seconds_from(0, option="timeout", zero_allowed=False)

    assert seconds_from(0.1, option="timeout", zero_allowed=False) == 0.1


def test_a_number_beyond_a_double_is_infinitely_long() -> None:
    assert number_of_seconds(10**400) == math.inf
    assert number_of_seconds(-(10**400)) == -math.inf
    assert number_of_seconds("1") is None
