"""What people write on the command line is read as meant, or refused with an example."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import click
import pytest

from wherry.cli import values


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90", timedelta(seconds=90)),
        ("0", timedelta()),
        ("1.5", timedelta(seconds=1.5)),
        ("250ms", timedelta(milliseconds=250)),
        ("5m", timedelta(minutes=5)),
        ("5min", timedelta(minutes=5)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_a_length_of_time_is_read(text: str, length: timedelta) -> None:
    assert values.duration(text) == length


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (values.Whole(), "abc", "'abc' is no whole number"),
        (values.Whole(1), "0", "'0' is no whole number from 1 on"),
        (values.Whole(1, 1000), "1.5", "'1.5' is no whole number from 1 to 1,000"),
        (values.TASK_ID, "-1", "'-1' is no whole number from 1 to 9,223,372,036,854,775,807"),
    ],
)
def test_what_is_no_whole_number_is_refused_with_its_ends(
    kind: values.Whole, text: str, said: str
) -> None:
    with pytest.raises(click.BadParameter) as refused:
        kind.convert(text, None, None)

    assert refused.value.message == said
    assert values.Whole(1, 1000).convert("1000", None, None) == 1000


@pytest.mark.parametrize(
    "text", ["", "soon", "-5", "5 parsecs", "1h 30m", "nan", "inf", "1e3", "h"]
)
def test_what_is_no_length_of_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="1h30m"):
        values.duration(text)


def test_a_length_beyond_all_counting_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="longer than can be counted"):
        values.duration("9999999999999d")


def test_a_moment_is_read_with_its_offset() -> None:
    assert values.instant("2027-01-31T08:00:00Z") == datetime(2027, 1, 31, 8, tzinfo=UTC)
    eight_there = datetime(2027, 1, 31, 8, tzinfo=timezone(timedelta(hours=2)))
    assert values.instant("2027-01-31 08:00+02:00") == eight_there


def test_a_moment_without_an_offset_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="no offset from UTC"):
        values.instant("2027-01-31T08:00:00")


def test_what_is_no_moment_is_refused_with_an_example() -> None:
    with pytest.raises(click.BadParameter, match="write 2027-01-31T08:00:00Z"):
        values.instant("tomorrow")


@pytest.mark.parametrize(
    ("text", "a_second"), [("100/s", 100.0), ("100", 100.0), ("600/min", 10.0), ("1800/h", 0.5)]
)
def test_a_rate_is_read_as_so_many_a_second(text: str, a_second: float) -> None:
    assert values.rate(text) == pytest.approx(a_second)


@pytest.mark.parametrize("text", ["0/s", "fast", "100/day", "-1/s", ""])
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="100/s"):
        values.rate(text)


def test_only_the_first_equals_sign_parts_a_pair() -> None:
    assert values.pair("traceparent=00-a=b") == ("traceparent", "00-a=b")
    assert values.pair("empty=") == ("empty", "")
    with pytest.raises(click.BadParameter, match="NAME=VALUE"):
        values.pair("alone")
