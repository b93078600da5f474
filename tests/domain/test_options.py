"""Every option of a task: what is taken, how it is stored, in which words the rest is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from wherry.domain.options import (
    HEADERS_LIMIT_BYTES,
    Options,
    TaskSpec,
)
from wherry.domain.retry import FullJitter
from wherry.errors import InvalidOption, InvalidTask

HUGE = [2**31, 2**63, 10**400]
NO_NUMBERS = ["a", "1", 1.5, 1.0, True, False, math.nan, None, [1], b"1"]


def spec_of(**options: Any) -> TaskSpec:
    given = {"type": "t", "payload": "{}", "index": None, **options}
    type, payload, index = (given.pop(name) for name in ("type", "payload", "index"))
    return Options(**given).spec(type, payload, index=index)


def refusal_of(**options: Any) -> InvalidOption:
    with pytest.raises(InvalidOption) as refused:
        spec_of(**options, index=4)
    assert refused.value.index == 4
    return refused.value


def test_a_task_without_options_has_the_documented_defaults() -> None:
    assert Options().spec("shop.send", '{"a":1}') == TaskSpec(
        queue="default",
        type="shop.send",
        payload='{"a":1}',
        priority=0,
        delay_seconds=None,
        run_after=None,
        max_attempts=20,
        key=None,
        key_ttl_seconds=None,
        retry=None,
        timeout_seconds=None,
        ttl_seconds=None,
        tags=(),
        headers={},
    )


def test_every_option_is_normalized() -> None:
    spec = spec_of(
        queue="email",
        priority=-5,
        delay=timedelta(minutes=1),
        max_attempts=1,
        key="order-42",
        key_ttl=0,
        retry=FullJitter(2, 30),
        timeout=1.5,
        ttl=60,
        tags=["b", "a", "b"],
        headers=MappingProxyType({"traceparent": "00-ab", "empty": ""}),
    )

    assert spec == TaskSpec(
        queue="email",
        type="t",
        payload="{}",
        priority=-5,
        delay_seconds=60.0,
        run_after=None,
        max_attempts=1,
        key="order-42",
        key_ttl_seconds=0.0,
        retry={"kind": "full_jitter", "base": 2.0, "cap": 30.0},
        timeout_seconds=1.5,
        ttl_seconds=60.0,
        tags=("b", "a"),
        headers={"traceparent": "00-ab", "empty": ""},
    )


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        spec_of().queue = "x"  # type: ignore[misc]


def test_headers_are_a_copy() -> None:
    headers = {"a": "b"}
    spec = spec_of(headers=headers)

    headers["a"] = "c"

    assert spec.headers == {"a": "b"}


@pytest.mark.parametrize("value", [-100, -1, 0, 1, 100])
def test_a_priority_in_range_is_taken(value: int) -> None:
    assert spec_of(priority=value).priority == value


@pytest.mark.parametrize("value", [-101, 101, -(2**63), *HUGE])
def test_a_priority_out_of_range_is_refused(value: int) -> None:
    assert refusal_of(priority=value).reason == "must be between -100 and 100"


@pytest.mark.parametrize("value", [1, 2, 32_767])
def test_attempts_in_range_are_taken(value: int) -> None:
    assert spec_of(max_attempts=value).max_attempts == value


@pytest.mark.parametrize("value", [0, -1, 32_768, *HUGE])
def test_attempts_out_of_range_are_refused(value: int) -> None:
    assert refusal_of(max_attempts=value).reason == "must be between 1 and 32767"


@pytest.mark.parametrize("option", ["priority", "max_attempts"])
@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_integer_is_refused(option: str, value: Any) -> None:
    refused = refusal_of(**{option: value})

    assert refused.option == option
    assert refused.value is value
    assert f", not {type(value).__name__}" in refused.reason


@pytest.mark.parametrize("option", ["delay", "timeout", "ttl", "key_ttl"])
@pytest.mark.parametrize("value", [1, 0.5, timedelta(seconds=90), 2**31, timedelta(days=36_525)])
def test_durations_in_range_are_seconds(option: str, value: Any) -> None:
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)

    assert getattr(spec_of(**{option: value}), f"{option}_seconds") == seconds


@pytest.mark.parametrize("option", ["delay", "timeout", "ttl", "key_ttl"])
@pytest.mark.parametrize(
    "value",
    [-1, -0.5, timedelta(-1), "a", "5", True, False, math.nan, math.inf, 2**63, 10**400, [5]],
    ids=lambda value: str(value)[:20],
)
def test_durations_that_make_no_sense_are_refused(option: str, value: Any) -> None:
    refused = refusal_of(**{option: value})

    assert refused.option == option
    assert refused.value is value


def test_zero_is_a_delay_but_no_timeout() -> None:
    assert spec_of(delay=0).delay_seconds == 0
    assert spec_of(key_ttl=0).key_ttl_seconds == 0
    assert "longer than zero" in refusal_of(timeout=0).reason
    assert "longer than zero" in refusal_of(ttl=0).reason


def test_an_instant_is_kept_in_utc() -> None:
    berlin = datetime(2026, 7, 1, 12, 0, 0, 5, tzinfo=ZoneInfo("Europe/Berlin"))

    spec = spec_of(run_after=berlin)

    assert spec.run_after == datetime(2026, 7, 1, 10, 0, 0, 5, tzinfo=UTC)
    assert spec.run_after is not None
    assert spec.run_after.tzinfo is UTC
    assert spec_of(run_after=datetime(1, 1, 2, tzinfo=UTC)).run_after == datetime(
        1, 1, 2, tzinfo=UTC
    )


def test_the_hour_that_comes_twice_is_told_apart() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 30, tzinfo=berlin)

    assert spec_of(run_after=first).run_after == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert spec_of(run_after=first.replace(fold=1)).run_after == datetime(
        2026, 10, 25, 1, 30, tzinfo=UTC
    )


def test_a_subclass_of_datetime_goes_no_further() -> None:
    class Stamp(datetime):
        pass

    kept = spec_of(run_after=Stamp(2026, 1, 1, tzinfo=UTC)).run_after

    assert type(kept) is datetime


class NoZone(tzinfo):
    """A timezone that does not know its offset."""

    def utcoffset(self, dt: datetime | None, /) -> None:
        return None

    def tzname(self, dt: datetime | None, /) -> None:
        return None

    def dst(self, dt: datetime | None, /) -> None:
        return None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (datetime(2026, 1, 1), "has no timezone: use datetime.now(UTC) + ..."),  # noqa: DTZ001
        (datetime(2026, 1, 1, tzinfo=NoZone()), "has no timezone"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "beyond the years 1 to 9999"),
        (
            datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-1))),
            "beyond the years 1 to 9999",
        ),
        (date(2026, 1, 1), "must be a datetime with a timezone, not date"),
        ("2026-01-01T00:00:00Z", "must be a datetime with a timezone, not str"),
        (1_700_000_000, "must be a datetime with a timezone, not int"),
        (timedelta(1), "must be a datetime with a timezone, not timedelta"),
        (True, "must be a datetime with a timezone, not bool"),
    ],
    ids=str,
)
def test_what_is_no_instant_is_refused(value: Any, reason: str) -> None:
    refused = refusal_of(run_after=value)

    assert refused.option == "run_after"
    assert reason in refused.reason


def test_delay_and_run_after_together_are_refused() -> None:
    refused = refusal_of(delay=5, run_after=datetime.now(UTC))

    assert refused.reason == "cannot be given together with delay: leave one of the two out"


@pytest.mark.parametrize(
    ("tags", "option", "reason"),
    [
        ("abc", "tags", "must be a list of strings, not str"),
        ({"a"}, "tags", "must be a list of strings, not set"),
        ({"a": 1}, "tags", "not dict"),
        (None, "tags", "not NoneType"),
        (5, "tags", "not int"),
        (["a", ""], "tags[1]", "must not be empty"),
        (["a", 5], "tags[1]", "must be a string, not int"),
        (["x" * 256], "tags[0]", "is 256 bytes long"),
        (["a\0"], "tags[0]", "holds NUL"),
        (["a\n"], "tags[0]", "holds the control character U+000A"),
        (["\ud800"], "tags[0]", "lone surrogate"),
        ([str(n) for n in range(33)], "tags", "must be at most 32 different ones"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_what_are_no_tags_is_refused(tags: Any, option: str, reason: str) -> None:
    refused = refusal_of(tags=tags)

    assert refused.option == option
    assert reason in refused.reason


def test_tags_keep_their_order_each_once() -> None:
    assert spec_of(tags=("b", "a", "b", "B")).tags == ("b", "a", "B")
    assert spec_of(tags=[]).tags == ()
    assert len(spec_of(tags=[str(n % 32) for n in range(100)]).tags) == 32


@pytest.mark.parametrize(
    ("headers", "option", "reason"),
    [
        ([("a", "b")], "headers", "must be a dict of strings to strings, not list"),
        ("a", "headers", "not str"),
        ({1: "a"}, "headers", "must be a string, not int"),
        ({"": "a"}, "headers", "must not be empty"),
        ({"a\r\n": "b"}, "headers", "holds the control character U+000D"),
        ({"a": 1}, "headers['a']", "must be a string, not int"),
        ({"a": None}, "headers['a']", "must be a string, not NoneType"),
        ({"a": {"b": "c"}}, "headers['a']", "must be a string, not dict"),
        ({"a": "\0"}, "headers['a']", "holds NUL"),
        ({"a": "\ud800"}, "headers['a']", "lone surrogate"),
        ({"a": "x" * 8193}, "headers['a']", "is 8,193 bytes long"),
        ({str(n): "x" * 1000 for n in range(9)}, "headers", "the limit is 8,192: put data into"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_what_are_no_headers_is_refused(headers: Any, option: str, reason: str) -> None:
    refused = refusal_of(headers=headers)

    assert refused.option == option
    assert reason in refused.reason
    assert len(str(refused)) < 300


def test_headers_are_counted_in_bytes_of_names_and_values() -> None:
    fits = {"é": "é" * ((HEADERS_LIMIT_BYTES - 2) // 2)}

    assert spec_of(headers=fits).headers == fits
    assert "the limit is 8,192" in refusal_of(headers={**fits, "a": ""}).reason


def test_a_retry_function_is_not_stored() -> None:
    assert spec_of(retry=lambda attempt, error: 5).retry is None
    assert refusal_of(retry="fixed").option == "retry"


def test_a_refusal_names_option_value_and_what_to_do() -> None:
    refused = refusal_of(max_attempts=0)

    assert str(refused) == "task 4 of the batch: max_attempts=0: must be between 1 and 32767"
    assert isinstance(refused, InvalidTask)
    assert isinstance(refused, ValueError)
