"""Leases and outcomes come back from the wire as they went in."""

from __future__ import annotations

import json
import uuid
from time import monotonic
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from tests.wire import made
from wherry.domain.failure import Failure
from wherry.domain.lease import Lease, Rare, Times
from wherry.domain.outcome import Completed, Failed, GivenBack, Outcome, stored_policy
from wherry.domain.retry import to_json
from wherry.domain.stored import decode
from wherry.errors import InvalidOption
from wherry.wire import leases
from wherry.wire.lease_token import read_lease_token
from wherry.wire.v1 import leases_pb2 as pb
from wherry.wire.values import write_duration

some_leases = st.builds(
    Lease,
    deadline=st.just(1e9),
    id=st.integers(1, 2**63 - 1),
    queue=made.names,
    type=made.names,
    payload_text=st.just('{"x": 1}'),
    priority=st.integers(-100, 100),
    position=st.integers(0, 2**62),
    attempt=st.integers(1, 32_767),
    max_attempts=st.integers(1, 32_767),
    token=st.integers(1, 2**63 - 1),
    lease_id=st.uuids().map(str),
    times=st.builds(Times, made.instants, made.instants, made.instants),
    rare=st.builds(
        Rare,
        timeout_seconds=st.none() | made.lengths,
        key=st.none() | made.names,
        tags=st.none() | st.lists(made.names, min_size=1, max_size=3),
        headers_text=st.none()
        | made.headers.filter(bool).map(lambda given: json.dumps(given, ensure_ascii=False)),
        retry_text=st.none() | made.policies.map(lambda policy: json.dumps(to_json(policy))),
        last_error=st.none() | made.texts,
        snoozes=st.integers(0, 1000),
    ),
)


def a_lease(**changed: Any) -> Lease:
    fields: dict[str, Any] = {
        "deadline": monotonic() + 30,
        "id": 7,
        "queue": "mail",
        "type": "send",
        "payload_text": "{}",
        "priority": 0,
        "position": 12,
        "attempt": 1,
        "max_attempts": 20,
        "token": 3,
        "lease_id": str(uuid.uuid4()),
        "times": Times(made.AT, made.AT, made.AT),
    }
    return Lease(**fields | changed)


@given(some_leases)
def test_a_client_holds_what_the_server_leased(lease: Lease) -> None:
    sent = pb.LeasedTask.FromString(leases.write_lease(lease).SerializeToString())

    held = leases.read_lease(sent, asked_at=0.0)

    for name in [
        "id",
        "queue",
        "type",
        "payload_text",
        "priority",
        "attempt",
        "max_attempts",
        "token",
        "run_after",
        "created_at",
        "leased_at",
        "timeout_seconds",
        "key",
        "tags",
        "last_error",
        "snoozes",
    ]:
        assert getattr(held, name) == getattr(lease, name), name
    assert headers(held) == headers(lease)
    assert stored_policy(held) == stored_policy(lease)
    assert read_lease_token(held.lease_id).fence == lease.fence


def headers(lease: Lease) -> dict[str, Any]:
    return decode(lease.headers_text) if lease.headers_text else {}


def test_a_lease_that_has_run_out_has_nothing_left() -> None:
    message = leases.write_lease(a_lease(deadline=monotonic() - 5))

    assert message.remaining == Duration()


def test_a_lease_ends_for_its_client_no_later_than_for_the_server() -> None:
    sent_at = monotonic()
    lease = a_lease(deadline=sent_at + 40 + 30)
    # It waited forty seconds for a task, and its answer took five to come.
    response = pb.LeaseResponse(tasks=[leases.write_lease(lease)], waited=write_duration(40))
    response.tasks[0].remaining.CopyFrom(write_duration(30))

    [held] = leases.read_leases(response, asked_at=sent_at - 5)

    assert lease.deadline - 6 < held.deadline <= lease.deadline


failures = st.builds(Failure.of_text, made.texts, type=made.names, traceback=made.texts)
reasons = st.none() | made.texts.filter(bool)


def outcomes(lease: Lease) -> st.SearchStrategy[Outcome]:
    return st.one_of(
        st.builds(Completed, st.just(lease), st.sampled_from([None, "null", "[1]"])),
        st.builds(Failed, st.just(lease), st.just("retry"), failures, made.lengths),
        st.builds(Failed, st.just(lease), st.just("fail"), failures, st.just(0.0), reasons),
        st.builds(Failed, st.just(lease), st.just("cancel"), failures, st.just(0.0), reasons),
        st.builds(GivenBack, st.just(lease), st.sampled_from(["snooze", "release"]), made.lengths),
    )


@given(outcomes(a_lease(lease_id="opaque")))
def test_an_outcome_is_told_with_all_its_particulars(outcome: Outcome) -> None:
    sent = pb.Outcome.FromString(leases.write_outcome(outcome).SerializeToString())

    lease, kind, told = leases.read_outcome(sent)

    assert lease == "opaque"
    match outcome:
        case Completed(result_text=result):
            assert (kind, told) == ("complete", {"result_text": result})
        case Failed(verdict="cancel"):
            assert (kind, told) == (
                "cancel",
                {"failure": outcome.failure, "reason": outcome.reason},
            )
        case Failed():
            retry = outcome.verdict == "retry"
            assert kind == "fail"
            assert told == {
                "failure": outcome.failure,
                "retry": retry,
                "retry_after": outcome.retry_seconds if retry else None,
                "reason": outcome.reason,
            }
        case GivenBack():
            assert (kind, told) == (outcome.verdict, {"delay": outcome.delay_seconds})


def test_a_failure_is_tried_again_unless_it_says_otherwise() -> None:
    assert leases.read_failed(pb.FailRequest())["retry"] is True
    assert leases.read_failed(pb.FailRequest(retry=False))["retry"] is False


@pytest.mark.parametrize(
    ("outcome", "option"),
    [
        (pb.Outcome(lease="x"), "outcome"),
        (pb.Outcome(snooze=pb.Outcome.Snoozed()), "snooze.delay"),
        (pb.Outcome(snooze=pb.Outcome.Snoozed(delay=Duration(nanos=-(2**31)))), "snooze.delay"),
        (pb.Outcome(release=pb.Outcome.Released(delay=Duration(seconds=2**62))), "release.delay"),
        (
            pb.Outcome(fail=pb.Outcome.Failed(retry_after=Duration(seconds=2**62))),
            "fail.retry_after",
        ),
    ],
)
def test_an_outcome_that_makes_no_sense_is_refused_by_its_field(
    outcome: pb.Outcome, option: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        leases.read_outcome(outcome)

    assert caught.value.option == option
