"""Tasks come back from the wire as they went in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.wire import made
from wherry.domain.filter import Filter
from wherry.domain.options import Options, TaskSpec
from wherry.domain.retry import to_json
from wherry.domain.state import State
from wherry.domain.task import Attempt, Enqueued, RequeueAnswer, Requeued, Task
from wherry.errors import InvalidOption
from wherry.wire import filter as filters
from wherry.wire import tasks
from wherry.wire.v1 import tasks_pb2 as pb
from wherry.wire.values import REQUEUED


@given(made.specs)
def test_what_a_client_enqueues_is_what_the_server_reads(spec: TaskSpec) -> None:
    sent = pb.EnqueueRequest.FromString(tasks.write_spec(spec).SerializeToString())

    type_, payload, options = tasks.read_enqueue(sent)

    assert Options().changed(options).spec(type_, payload) == spec


def test_an_empty_request_says_nothing() -> None:
    assert tasks.read_enqueue(pb.EnqueueRequest()) == ("", "", {})


def test_an_empty_key_is_not_the_same_as_none() -> None:
    _, _, options = tasks.read_enqueue(pb.EnqueueRequest(key="", priority=0))

    assert options == {"key": "", "priority": 0}


@pytest.mark.parametrize(
    ("request_", "option"),
    [
        (pb.EnqueueRequest(delay=Duration(nanos=-(2**31))), "delay"),
        (pb.EnqueueRequest(run_after=Timestamp(seconds=2**62)), "run_after"),
        (pb.EnqueueRequest(timeout=Duration(seconds=1, nanos=-1)), "timeout"),
        (pb.EnqueueRequest(key_ttl=Duration(seconds=-(2**63))), "key_ttl"),
        (pb.EnqueueRequest(retry=pb.RetryPolicy()), "retry"),
    ],
)
def test_a_bad_field_of_a_batch_is_refused_with_its_place(
    request_: pb.EnqueueRequest, option: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        tasks.read_enqueue(request_, index=7)

    assert (caught.value.option, caught.value.index) == (option, 7)


@given(st.builds(Enqueued, st.integers(1, 2**63 - 1), st.booleans(), st.none() | st.booleans()))
def test_the_answer_to_an_enqueue_comes_back_equal(enqueued: Enqueued) -> None:
    assert tasks.read_enqueued(tasks.write_enqueued(enqueued)) == enqueued


some = st.none() | made.texts
attempts = st.builds(
    Attempt,
    token=st.integers(1, 2**63 - 1),
    attempt=st.integers(1, 32_767),
    outcome=st.sampled_from(["failed", "lost", "canceled"]),
    worker=some,
    started_at=st.none() | made.instants,
    ended_at=made.instants,
    retry_at=st.none() | made.instants,
    error_type=some,
    message=some,
    traceback=some,
)
read_tasks = st.builds(
    Task,
    id=st.integers(1, 2**63 - 1),
    queue=made.names,
    type=made.names,
    payload_text=st.just('{"x": 1}'),
    state=st.sampled_from(State),
    priority=st.integers(-100, 100),
    attempts=st.integers(0, 32_767),
    max_attempts=st.integers(1, 32_767),
    token=st.integers(0, 2**63 - 1),
    run_after=made.instants,
    created_at=made.instants,
    started_at=st.none() | made.instants,
    finished_at=st.none() | made.instants,
    worker=some,
    lease_expires_at=st.none() | made.instants,
    key=st.none() | made.names,
    tags=st.lists(made.names, max_size=3).map(tuple),
    headers_text=st.none()
    | made.headers.filter(bool).map(lambda given: json.dumps(given, ensure_ascii=False)),
    retry_text=st.none() | made.policies.map(lambda policy: json.dumps(to_json(policy))),
    timeout_seconds=st.none() | made.lengths,
    result_text=st.sampled_from([None, "null", '"x"', ""]),
    reason=some,
    error=some,
    cancel_requested_at=st.none() | made.instants,
    history=st.lists(attempts, max_size=2).map(tuple),
)


@given(read_tasks)
def test_a_task_comes_back_equal(task: Task) -> None:
    sent = pb.Task.FromString(tasks.write_task(task).SerializeToString())

    found = tasks.read_task(sent)

    assert (found.headers, found.retry) == (task.headers, task.retry)
    assert replace(found, headers_text=task.headers_text, retry_text=task.retry_text) == task


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("{", {}),
        ("[]", {}),
        ('{"a": 1, "b": null, "c": {"d": []}}', {"a": "1", "b": "null", "c": '{"d": []}'}),
    ],
)
def test_headers_that_plain_sql_stored_hide_no_task(text: str, headers: dict[str, str]) -> None:
    assert tasks.headers_of(text) == headers


wanted_filters = st.builds(
    Filter,
    states=st.frozensets(st.sampled_from(State), min_size=1),
    queue=st.none() | made.names,
    type=st.none() | made.names,
    tag=st.none() | made.names,
    error=st.none() | made.texts,
    older_than_seconds=st.none() | made.lengths,
    id=st.none() | st.integers(1, 2**63 - 1),
    key=st.none() | made.texts,
    fingerprint=st.none() | st.just("0123456789ab"),
    worker=st.none() | made.names,
    payload_text=st.none() | st.just('{"a": {"b": 1}}'),
    created_after=st.none() | made.instants,
    created_before=st.none() | made.instants,
    finished_after=st.none() | made.instants,
    finished_before=st.none() | made.instants,
)


@given(wanted_filters)
def test_a_filter_comes_back_equal(wanted: Filter) -> None:
    said: dict[str, Any] = filters.read_filter(filters.write_filter(wanted))

    states = said.pop("state", None)
    seconds = said.pop("older_than", None)
    payload = said.pop("payload", None)
    assert (
        Filter(
            states=frozenset(State) if states is None else frozenset(states),
            older_than_seconds=seconds,
            payload_text=payload,
            **said,
        )
        == wanted
    )


def test_an_unknown_state_in_a_filter_is_refused_by_its_place() -> None:
    message = pb.TaskFilter.FromString(b"\x0a\x02\x01\x63")

    with pytest.raises(InvalidOption) as caught:
        filters.read_filter(message)

    assert caught.value.option == "states[1]"


@given(st.none() | st.integers(1, 2**63 - 1))
def test_a_page_token_comes_back_equal(after: int | None) -> None:
    assert tasks.read_page_token(tasks.write_page_token(after)) == after


@given(st.none() | st.integers(1, 2**63 - 1), st.none() | st.integers(1, 2**63 - 1))
def test_a_place_between_pages_comes_back_equal(after: int | None, before: int | None) -> None:
    said = filters.read_place(filters.write_place(after, before))

    assert said == {"after": None if before else after, "before": before}


@pytest.mark.parametrize("text", ["b", "bb1", "b-1", "1b", "B1"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="no page token"):
        filters.read_place(text)


@pytest.mark.parametrize("text", ["-1", "x", " 1", "²", "١", "9" * 5000, "1e3"])
def test_what_is_no_page_token_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="no page token"):
        tasks.read_page_token(text)


@pytest.mark.parametrize("answer", RequeueAnswer)
def test_what_a_requeue_did_is_read_as_it_was(answer: RequeueAnswer) -> None:
    key, taken_by = ("k", 9) if answer is RequeueAnswer.KEY_TAKEN else ("", 0)
    message = pb.Requeued(id=4, answer=REQUEUED.write(answer), key=key, taken_by=taken_by)

    assert tasks.read_requeued(message) == Requeued(4, answer, key or None, taken_by or None)
