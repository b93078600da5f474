"""How long a failed task waits: by which formula, within which bounds, whatever the policy does."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.domain.durations import LONGEST_SECONDS
from wherry.domain.retry import (
    DEFAULT_POLICY,
    Additive,
    Fixed,
    FullJitter,
    RetryPolicy,
    check_policy,
    delay,
    from_json,
    to_json,
)
from wherry.errors import InvalidOption, InvalidTask

durations = st.floats(min_value=0, max_value=LONGEST_SECONDS)
policies = (
    st.builds(FullJitter, durations, durations)
    | st.builds(Additive, durations, durations, durations)
    | st.builds(Fixed, durations)
)
fractions = st.floats(min_value=0, max_value=1, exclude_max=True)


def longest(policy: RetryPolicy, attempts: int) -> float:
    """Return the delay in seconds at the upper end of the jitter."""
    return delay(policy, attempts=attempts, random=lambda: 1.0).total_seconds()


def shortest(policy: RetryPolicy, attempts: int) -> float:
    return delay(policy, attempts=attempts, random=lambda: 0.0).total_seconds()


@pytest.mark.parametrize(
    ("base", "cap", "table"),
    [
        (1, 3600, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]),
        (0.5, 3600, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600]),
        (1, 10, [2, 4, 8, 10, 10, 10]),
        (0, 3600, [0, 0, 0]),
        (0, 0, [0, 0, 0]),
        (5, 0, [0, 0, 0]),
        (100, 10, [10, 10]),
    ],
)
def test_full_jitter_draws_up_to_the_documented_number(
    base: float, cap: float, table: list[float]
) -> None:
    """RET-02."""
    policy = FullJitter(base, cap)

    for attempts, seconds in enumerate(table, start=1):
        assert longest(policy, attempts) == seconds
        assert shortest(policy, attempts) == 0


@pytest.mark.parametrize(
    ("base", "jitter", "cap", "table"),
    [
        (1, 0, 3600, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600]),
        (1, 1, 3600, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3599]),
        (2, 3, 30, [4, 8, 16, 27, 27]),
        (0, 1, 10, [0, 0]),
        (1, 100, 10, [0, 0]),
    ],
)
def test_additive_adds_its_jitter_and_keeps_it_at_the_cap(
    base: float, jitter: float, cap: float, table: list[float]
) -> None:
    policy = Additive(base, jitter, cap)

    for attempts, seconds in enumerate(table, start=1):
        assert shortest(policy, attempts) == seconds
        assert longest(policy, attempts) == seconds + min(jitter, cap)
        assert longest(policy, attempts) <= cap


def test_fixed_waits_the_same_every_time() -> None:
    assert {delay(Fixed(7), attempts=n) for n in (1, 2, 50, 10**9)} == {timedelta(seconds=7)}
    assert delay(Fixed(0), attempts=1) == timedelta()


@given(policies, st.integers(min_value=-5, max_value=10**30), fractions)
def test_no_attempt_and_no_policy_overflows_or_leaves_its_bounds(
    policy: FullJitter | Additive | Fixed, attempts: int, fraction: float
) -> None:
    wait = delay(policy, attempts=attempts, random=lambda: fraction)

    assert timedelta() <= wait
    assert wait <= (policy.delay if isinstance(policy, Fixed) else policy.cap)


@given(st.floats(min_value=1e-6, max_value=1e9), st.integers(min_value=62, max_value=10**9))
def test_cutting_the_exponent_changes_no_delay(base: float, attempts: int) -> None:
    policy = FullJitter(base, LONGEST_SECONDS)

    assert longest(policy, attempts) == LONGEST_SECONDS


def test_ten_thousand_failures_in_one_second_come_back_spread_out() -> None:
    """RET-04."""
    draw = random.Random(20).random
    waits = [delay(FullJitter(), attempts=6, random=draw) for _ in range(10_000)]

    seconds = Counter(math.floor(wait.total_seconds()) for wait in waits)

    assert max(seconds) < 64
    assert len(seconds) == 64
    assert max(seconds.values()) / len(waits) < 0.05
    assert 31 < sum(w.total_seconds() for w in waits) / len(waits) < 33


def test_additive_spreads_also_those_that_reached_the_cap() -> None:
    draw = random.Random(20).random
    policy = Additive(base=1, jitter=60, cap=3600)

    seconds = Counter(
        math.floor(delay(policy, attempts=30, random=draw).total_seconds()) for _ in range(10_000)
    )

    assert set(seconds) == set(range(3540, 3600))
    assert max(seconds.values()) / 10_000 < 0.05


def test_the_defaults_are_one_second_and_one_hour() -> None:
    assert FullJitter(1, 3600) == FullJitter(timedelta(seconds=1), timedelta(hours=1))
    assert DEFAULT_POLICY == FullJitter() == FullJitter(1, 3600)


def test_policies_are_values() -> None:
    assert len({FullJitter(), FullJitter(1), Fixed(1), Fixed(1.0)}) == 2
    with pytest.raises(AttributeError):
        FullJitter().base = timedelta()  # type: ignore[misc]


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "1", None, timedelta(-1), 10**400])
def test_bounds_that_make_no_sense_are_refused_by_name(value: Any) -> None:
    for make, option in (
        (lambda: FullJitter(base=value), "FullJitter.base"),
        (lambda: FullJitter(cap=value), "FullJitter.cap"),
        (lambda: Additive(jitter=value), "Additive.jitter"),
        (lambda: Fixed(value), "Fixed.delay"),
    ):
        with pytest.raises(InvalidOption) as refused:
            make()
        assert refused.value.option == option
        assert isinstance(refused.value, InvalidTask)


def test_a_function_is_asked_with_the_attempt_and_the_error() -> None:
    asked: list[object] = []
    error = ValueError("x")

    def policy(attempt: int, error: BaseException | None) -> float:
        asked.append((attempt, error))
        return 2.5

    assert delay(policy, attempts=3, error=error) == timedelta(seconds=2.5)
    assert asked == [(3, error)]
    assert delay(lambda n, _: timedelta(minutes=n), attempts=4) == timedelta(minutes=4)
    assert delay(lambda n, _: 0, attempts=1) == timedelta()


class Unprintable(float):
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__
    __float__ = __str__  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (-1, "answered -1 s, which is not between 0 and a hundred years"),
        (math.nan, "answered nan s"),
        (math.inf, "answered inf s"),
        (10**400, "answered inf s"),
        (timedelta.max, "not between 0 and a hundred years"),
        (timedelta(seconds=-1), "answered -1 s"),
        ("soon", "answered a str, which is no length of time"),
        (None, "answered a NoneType"),
        (True, "answered a bool"),
        ((1,), "answered a tuple"),
        (Unprintable(1), "raised RuntimeError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_nonsensical_answer_gives_the_default_delay_and_is_told(answer: Any, said: str) -> None:
    notes: list[str] = []

    wait = delay(lambda *_: answer, attempts=2, random=lambda: 0.5, note=notes.append)

    assert wait == timedelta(seconds=2)
    assert len(notes) == 1
    assert said in notes[0]
    assert "so the default policy serves" in notes[0]
    assert delay(lambda *_: answer, attempts=2, random=lambda: 0.5) == wait


def test_a_function_that_raises_gives_the_default_delay_and_is_told() -> None:
    notes: list[str] = []

    def policy(attempt: int, error: BaseException | None) -> float:
        raise ZeroDivisionError

    wait = delay(policy, attempts=1, random=lambda: 0.5, note=notes.append)

    assert wait == timedelta(seconds=1)
    assert notes == ["the retry function raised ZeroDivisionError, so the default policy serves"]


def test_a_function_that_takes_other_arguments_gives_the_default_delay() -> None:
    notes: list[str] = []
    policy: Any = lambda: 5  # noqa: E731 - as a user would pass it

    assert delay(policy, attempts=1, random=lambda: 0.0, note=notes.append) == timedelta()
    assert "raised TypeError" in notes[0]


def test_an_async_function_is_refused_and_its_coroutine_left_without_a_warning() -> None:
    async def policy(attempt: int, error: BaseException | None) -> float:
        return 1.0

    hidden: Any = lambda *arguments: policy(*arguments)  # noqa: E731 - hides that it is async
    notes: list[str] = []

    with pytest.raises(InvalidOption, match="must be a plain function, not an async one"):
        check_policy(policy)
    assert delay(hidden, attempts=1, random=lambda: 0.0, note=notes.append) == timedelta()
    assert "answered a coroutine" in notes[0]


@pytest.mark.parametrize("policy", ["full_jitter", "fixed", 5, {"kind": "fixed"}, None, FullJitter])
def test_what_is_no_policy_is_refused(policy: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^retry=.*must be FullJitter\(\.\.\.\), Additive"):
        check_policy(policy)


@given(policies)
def test_the_stored_form_gives_the_same_policy(policy: FullJitter | Additive | Fixed) -> None:
    assert check_policy(policy) is policy
    assert from_json(to_json(policy)) == policy


def test_the_stored_form_is_plain() -> None:
    assert to_json(FullJitter()) == {"kind": "full_jitter", "base": 1.0, "cap": 3600.0}
    assert to_json(Additive(1, 2, 3)) == {
        "kind": "additive",
        "base": 1.0,
        "jitter": 2.0,
        "cap": 3.0,
    }
    assert to_json(Fixed(0.5)) == {"kind": "fixed", "delay": 0.5}
    assert to_json(lambda *_: 1) is None
    assert from_json(None) == DEFAULT_POLICY


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"kind": "fibonacci"},
        {"kind": None},
        {"kind": ["full_jitter"]},
        {"kind": "full_jitter"},
        {"kind": "full_jitter", "base": "1", "cap": 5},
        {"kind": "full_jitter", "base": -1, "cap": 5},
        {"kind": "fixed", "delay": 10**400},
        [],
        "full_jitter",
        7,
    ],
    ids=str,
)
def test_a_stored_form_that_is_not_understood_is_the_default_and_is_told(stored: Any) -> None:
    notes: list[str] = []

    assert from_json(stored, note=notes.append) == DEFAULT_POLICY
    assert from_json(stored) == DEFAULT_POLICY
    assert notes[0].startswith("the stored retry policy is not understood, so the default serves: ")
