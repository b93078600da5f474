"""Leasing, keeping and settling tasks over gRPC."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.facts import await_for
from tests.server.grpc.asking import Stub, becomes, details, enqueued, leased, leasing
from wherry.server.desk import Desk
from wherry.testing import Clock
from wherry.wire.leases import read_leases
from wherry.wire.v1 import leases_pb2, tasks_pb2
from wherry.wire.v1.leases_pb2 import Outcome


async def test_a_lease_has_all_that_a_handler_needs(stub: Stub) -> None:
    id = await enqueued(stub, payload='{"x":1}', key="k", tags=["t"], headers={"h": "1"})
    before = (await stub.GetTask(tasks_pb2.GetTaskRequest(id=id))).task.token

    [task] = (await leasing(stub)).tasks

    assert (task.id, task.queue, task.type, task.payload) == (id, "mail", "shop.send", '{"x":1}')
    assert (task.attempt, task.max_attempts, task.token) == (1, 20, before + 1)
    assert (task.key, list(task.tags), dict(task.headers)) == ("k", ["t"], {"h": "1"})
    assert 20 < task.remaining.ToTimedelta().total_seconds() <= 30


async def test_no_more_is_leased_than_was_asked_for(stub: Stub) -> None:
    for _ in range(5):
        await enqueued(stub)

    assert len((await leasing(stub)).tasks) == 1
    assert len((await leasing(stub, max_tasks=3)).tasks) == 3


async def test_a_poll_is_answered_as_soon_as_there_is_a_task(stub: Stub, desk: Desk) -> None:
    poll = asyncio.create_task(leasing(stub, wait=30))
    sent_at = monotonic()
    await await_for(lambda: desk.waiting == 1)

    id = await enqueued(stub)

    response = await asyncio.wait_for(poll, 10)
    assert [task.id for task in response.tasks] == [id]
    waited = response.waited.ToTimedelta().total_seconds()
    assert 0 < waited < monotonic() - sent_at
    [lease] = read_leases(response, asked_at=sent_at)
    assert sent_at + 30 < lease.deadline <= monotonic() + 30


async def test_a_poll_is_answered_before_its_callers_deadline(stub: Stub) -> None:
    request = leases_pb2.LeaseRequest(worker_id="w", wait=Duration(seconds=60))

    response = await stub.Lease(request, timeout=2.0)

    assert not response.tasks


async def test_leases_of_a_caller_that_is_gone_go_back_at_once(
    stub: Stub, door: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await enqueued(stub)
    before = (await stub.GetTask(tasks_pb2.GetTaskRequest(id=id))).task.token
    service = door._service
    lease, arrived, go = service.lease, asyncio.Event(), asyncio.Event()

    async def slow(*args: Any, **said: Any) -> Any:
        found = await lease(*args, **said)
        arrived.set()
        # The cancellation that comes meanwhile is overlooked, as it is between two awaits.
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                go.set()
        return found

    monkeypatch.setattr(service, "lease", slow)
    call = stub.Lease(leases_pb2.LeaseRequest(worker_id="w", queues=["mail"]))
    await arrived.wait()

    call.cancel()

    monkeypatch.undo()

    async def is_back() -> bool:
        task = (await stub.GetTask(tasks_pb2.GetTaskRequest(id=id))).task
        return bool(task.state == tasks_pb2.STATE_QUEUED and task.token == before + 1)

    await becomes(is_back, seconds=5)
    [task] = (await leasing(stub)).tasks
    assert task.attempt == 1


async def test_a_poll_whose_caller_left_leases_nothing(stub: Stub, desk: Desk) -> None:
    call = stub.Lease(
        leases_pb2.LeaseRequest(worker_id="w", queues=["mail"], wait=Duration(seconds=30))
    )
    await await_for(lambda: desk.waiting == 1)

    call.cancel()

    await await_for(lambda: desk.waiting == 0)
    id = await enqueued(stub)
    response = await leasing(stub, wait=5)
    assert [(task.id, task.attempt) for task in response.tasks] == [(id, 1)]


async def test_an_answer_that_is_too_large_for_a_client_is_made_smaller(stub: Stub) -> None:
    large = '{"x":"%s"}' % ("x" * 1_000_000)
    ids = [await enqueued(stub, payload=large) for _ in range(10)]
    found: list[int] = []

    async def took_some() -> bool:
        found.extend(task.id for task in (await leasing(stub, max_tasks=1000)).tasks)
        return len(found) == 10

    await becomes(took_some)

    assert sorted(found) == ids


async def test_what_does_not_fit_is_not_leased_and_given_back_at_each_poll(
    stub: Stub, door: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = '{"x":"%s"}' % ("x" * 1_000_000)
    for _ in range(9):
        await enqueued(stub, payload=large)
    service, given_back = door._service, []
    undelivered = service.undelivered

    async def counted(leases: Any) -> None:
        given_back.append(len(leases))
        await undelivered(leases)

    monkeypatch.setattr(service, "undelivered", counted)

    for _ in range(3):
        response = await leasing(stub, max_tasks=1000, wait=5)
        outcomes = [Outcome(lease=t.lease, complete=Outcome.Completed()) for t in response.tasks]
        await stub.Report(leases_pb2.ReportRequest(outcomes=outcomes))

    assert given_back[0] > 3
    assert sum(given_back[1:]) <= 4


async def test_a_heartbeat_tells_of_each_lease(stub: Stub) -> None:
    task, done = await leased(stub), await leased(stub)
    await stub.Complete(leases_pb2.CompleteRequest(lease=done.lease))
    request = leases_pb2.HeartbeatRequest(
        leases=[task.lease, done.lease, "nonsense"], extend_by=Duration(seconds=90), worker_id="w"
    )

    beats = (await stub.Heartbeat(request)).beats

    assert [beat.answer for beat in beats] == [
        leases_pb2.REPORTED_EXTENDED,
        leases_pb2.REPORTED_LOST,
        leases_pb2.REPORTED_INVALID,
    ]
    assert 80 < beats[0].remaining.ToTimedelta().total_seconds() <= 90
    assert not beats[1].HasField("remaining")


async def test_a_task_is_completed_once(stub: Stub) -> None:
    task = await leased(stub)
    request = leases_pb2.CompleteRequest(lease=task.lease, result="[1]")

    answers = [(await stub.Complete(request)).answer for _ in range(2)]

    assert answers == [leases_pb2.REPORTED_DONE, leases_pb2.REPORTED_ALREADY_DONE]
    read = (await stub.GetTask(tasks_pb2.GetTaskRequest(id=task.id))).task
    assert (read.state, read.result) == (tasks_pb2.STATE_SUCCEEDED, "[1]")


async def test_a_failed_task_waits_for_its_next_attempt(stub: Stub) -> None:
    task = await leased(stub)
    error = leases_pb2.Error(type="ValueError", message="no", traceback="at line 1")

    response = await stub.Fail(
        leases_pb2.FailRequest(
            lease=task.lease, error=error, retry_after=Duration(seconds=7, nanos=500_000_000)
        )
    )

    assert response.answer == leases_pb2.REPORTED_REQUEUED
    assert response.retry_after == Duration(seconds=7, nanos=500_000_000)
    [attempt] = (await stub.GetTask(tasks_pb2.GetTaskRequest(id=task.id))).task.history
    assert (attempt.outcome, attempt.error_type, attempt.message, attempt.traceback) == (
        "failed",
        "ValueError",
        "no",
        "at line 1",
    )


async def test_a_task_that_must_not_be_tried_again_fails_for_good(stub: Stub) -> None:
    task = await leased(stub)

    response = await stub.Fail(leases_pb2.FailRequest(lease=task.lease, retry=False))

    assert response.answer == leases_pb2.REPORTED_FAILED
    assert not response.HasField("retry_after")


async def test_a_snoozed_and_a_released_task_keep_their_attempt(stub: Stub) -> None:
    snoozed, released = await leased(stub), await leased(stub)

    slept = await stub.Snooze(
        leases_pb2.SnoozeRequest(lease=snoozed.lease, delay=Duration(seconds=3600))
    )
    left = await stub.Release(leases_pb2.ReleaseRequest(lease=released.lease))

    assert (slept.answer, left.answer) == (leases_pb2.REPORTED_REQUEUED,) * 2
    [task] = (await leasing(stub, max_tasks=2)).tasks
    assert (task.id, task.attempt, task.token) == (released.id, 1, released.token + 1)


async def test_a_stale_lease_is_refused_with_its_task_and_token(stub: Stub, clock: Clock) -> None:
    task = await leased(stub)
    clock.advance(minutes=2)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Complete(leases_pb2.CompleteRequest(lease=task.lease))

    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    info = details(caught.value)["ErrorInfo"]
    assert info.reason == "LEASE_LOST"
    assert dict(info.metadata) == {"task_id": str(task.id), "token": str(task.token)}


@pytest.mark.parametrize("lease", ["", "nonsense", "A" * 10_000, "AQAAAAAAAAAB"])
async def test_what_is_no_lease_is_refused_as_bad_input(stub: Stub, lease: str) -> None:
    for call, request in (
        (stub.Complete, leases_pb2.CompleteRequest(lease=lease)),
        (stub.Fail, leases_pb2.FailRequest(lease=lease)),
        (stub.Snooze, leases_pb2.SnoozeRequest(lease=lease, delay=Duration(seconds=1))),
        (stub.Release, leases_pb2.ReleaseRequest(lease=lease)),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(request)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_report_answers_each_outcome_in_order(stub: Stub) -> None:
    tasks = [await leased(stub) for _ in range(5)]
    leases = [task.lease for task in tasks]
    outcomes = [
        Outcome(lease=leases[0], complete=Outcome.Completed(result="1")),
        Outcome(lease=leases[1], fail=Outcome.Failed(retry_after=Duration(seconds=9))),
        Outcome(lease="nonsense", complete=Outcome.Completed()),
        Outcome(lease=leases[2], cancel=Outcome.GivenUp(reason="enough")),
        Outcome(lease=leases[0], complete=Outcome.Completed()),
        Outcome(lease=leases[3]),
        Outcome(lease=leases[3], snooze=Outcome.Snoozed(delay=Duration(seconds=5))),
        Outcome(lease=leases[4], release=Outcome.Released()),
    ]

    answers = (await stub.Report(leases_pb2.ReportRequest(outcomes=outcomes))).answers

    assert [leases_pb2.Reported.Name(answer.answer) for answer in answers] == [
        "REPORTED_DONE",
        "REPORTED_REQUEUED",
        "REPORTED_INVALID",
        "REPORTED_CANCELED",
        "REPORTED_ALREADY_DONE",
        "REPORTED_INVALID",
        "REPORTED_REQUEUED",
        "REPORTED_REQUEUED",
    ]
    assert answers[1].retry_after == Duration(seconds=9)
    assert answers[2].problem.reason == answers[5].problem.reason == "INVALID_OPTION"
    assert answers[5].problem.field == "outcome"


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (leases_pb2.LeaseRequest(), "worker_id"),
        (leases_pb2.LeaseRequest(worker_id="w", max_tasks=1001), "max_tasks"),
        (leases_pb2.LeaseRequest(worker_id="w", max_tasks=-1), "max_tasks"),
        (leases_pb2.LeaseRequest(worker_id="w", wait=Duration(seconds=61)), "wait"),
        (leases_pb2.LeaseRequest(worker_id="w", wait=Duration(seconds=-1)), "wait"),
        (leases_pb2.LeaseRequest(worker_id="w", lease_duration=Duration()), "lease_duration"),
        (
            leases_pb2.LeaseRequest(worker_id="w", lease_duration=Duration(seconds=2**62)),
            "lease_duration",
        ),
        (leases_pb2.LeaseRequest(worker_id="w", confirm_within=Duration()), "confirm_within"),
        (leases_pb2.LeaseRequest(worker_id="w", max_last=-1), "max_last"),
    ],
)
async def test_a_poll_that_makes_no_sense_is_refused_by_its_field(
    stub: Stub, request_: leases_pb2.LeaseRequest, field: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Lease(request_)

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details(caught.value)["BadRequest"].field_violations[0].field == field


@pytest.mark.parametrize("field", ["queues", "types"])
async def test_more_names_than_a_batch_may_have_are_refused(stub: Stub, field: str) -> None:
    names = [f"n{n}" for n in range(1001)]

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await leasing(stub, **{field: names})

    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert f"1,001 {field} in one call" in (caught.value.details() or "")
