"""What goes over the wire as a length, an instant, an enum or a policy comes back equal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import example, given
from hypothesis import strategies as st

from tests.wire import made
from wherry.domain.retry import Additive, Fixed, FullJitter
from wherry.errors import InvalidOption
from wherry.wire import values
from wherry.wire.v1 import tasks_pb2


@given(st.floats(-1e9, 1e9))
@example(0.9999999999)
@example(-0.9999999999)
def test_a_length_comes_back_to_the_nanosecond(seconds: float) -> None:
    message = values.write_duration(seconds)

    assert values.read_duration(message, option="wait") == pytest.approx(seconds, abs=1e-6)
    assert message.ToJsonString()


@given(made.lengths)
def test_a_length_of_microseconds_comes_back_equal(seconds: float) -> None:
    assert values.read_duration(values.write_duration(seconds), option="wait") == seconds
    length = timedelta(seconds=seconds)
    assert values.write_duration(length) == values.write_duration(length.total_seconds())


@pytest.mark.parametrize(
    "seconds", [float("inf"), float("-inf"), float("nan"), 1e300, 315_576_000_000.0]
)
def test_a_length_beyond_all_bounds_is_still_written_as_one(seconds: float) -> None:
    assert values.write_duration(min(seconds, 315_576_000_000.0)).ToJsonString()


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [(1, -1), (-1, 1), (0, 10**9), (0, -(10**9)), (2**63 - 1, 0), (-(2**63), 0), (0, 2**31 - 1)],
)
def test_what_is_no_length_is_refused_by_its_name(seconds: int, nanos: int) -> None:
    with pytest.raises(InvalidOption, match="no length of time") as caught:
        values.read_duration(Duration(seconds=seconds, nanos=nanos), option="extend_by", index=3)

    assert caught.value.option == "extend_by"
    assert caught.value.index == 3


@given(made.instants)
def test_an_instant_comes_back_equal(instant: datetime) -> None:
    message = values.write_instant(instant)

    assert values.read_instant(message, option="run_after") == instant
    assert message.ToDatetime(tzinfo=UTC) == instant


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [
        (0, -1),
        (0, 10**9),
        (2**63 - 1, 0),
        (-(2**63), 0),
        (-62_135_596_801, 0),
        (253_402_300_800, 0),
    ],
)
def test_what_is_no_instant_is_refused_by_its_name(seconds: int, nanos: int) -> None:
    with pytest.raises(InvalidOption, match="no instant") as caught:
        values.read_instant(Timestamp(seconds=seconds, nanos=nanos), option="run_after")

    assert caught.value.option == "run_after"


@pytest.mark.parametrize(
    "names",
    [
        values.STATES,
        values.CANCELED,
        values.REQUEUED,
        values.PURGED,
        values.REPORTED,
        values.DIRECTIVES,
    ],
)
def test_every_name_has_a_number_of_its_own_and_no_other_number_a_name(names: Any) -> None:
    known = dict(names._numbers)

    assert [names.read(names.write(name), option="answer") for name in known] == list(known)
    assert len(set(known.values())) == len(known)
    for number in (-1, 99, 2**31 - 1):
        with pytest.raises(InvalidOption, match="there are only"):
            names.read(number, option="answer")


def test_a_state_that_is_not_said_is_none() -> None:
    with pytest.raises(InvalidOption, match="states"):
        values.STATES.read_all([1, 0], option="states")


@given(made.policies)
def test_a_policy_comes_back_equal(policy: FullJitter | Additive | Fixed) -> None:
    assert values.read_policy(values.write_policy(policy)) == policy


def test_a_policy_has_the_librarys_defaults() -> None:
    kinds = tasks_pb2.RetryPolicy

    assert values.read_policy(kinds(full_jitter=kinds.FullJitter())) == FullJitter()
    assert values.read_policy(kinds(additive=kinds.Additive())) == Additive()


@pytest.mark.parametrize(
    ("message", "option"),
    [
        (tasks_pb2.RetryPolicy(), "retry"),
        (tasks_pb2.RetryPolicy(fixed=tasks_pb2.RetryPolicy.Fixed()), "retry.fixed.delay"),
        (
            tasks_pb2.RetryPolicy(
                full_jitter=tasks_pb2.RetryPolicy.FullJitter(cap=Duration(seconds=-1))
            ),
            "retry.full_jitter.cap",
        ),
        (
            tasks_pb2.RetryPolicy(
                additive=tasks_pb2.RetryPolicy.Additive(jitter=Duration(nanos=-(2**31)))
            ),
            "retry.additive.jitter",
        ),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_its_field(
    message: tasks_pb2.RetryPolicy, option: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        values.read_policy(message)

    assert caught.value.option == option


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", '{"kind": "moon"}', '{"kind": "fixed", "delay": -1}']
)
def test_a_stored_policy_that_nobody_can_read_is_left_out(text: str | None) -> None:
    assert values.write_stored_policy(text) is None
