"""Storing, reading and changing tasks over gRPC, with what is answered and what is refused."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

import wherry
from tests.server.grpc.asking import Stub, details, enqueued, leased, leasing
from tests.waiting import Waiting
from wherry.server.grpc import GrpcDoor
from wherry.wire.v1 import leases_pb2, tasks_pb2
from wherry.wire.v1.tasks_pb2 import TaskFilter


async def test_nobody_is_woken_who_must_not_be(stub: Stub, connect: Any) -> None:
    waiting = Waiting(connect())

    await stub.Enqueue(tasks_pb2.EnqueueRequest(type="t", notify=False))
    silent = waiting.heard()
    await stub.Enqueue(tasks_pb2.EnqueueRequest(type="t"))
    batch = tasks_pb2.EnqueueBatchRequest(tasks=[tasks_pb2.EnqueueRequest(type="t", notify=True)])
    [refused] = (await stub.EnqueueBatch(batch)).results

    assert (silent, waiting.heard()) == (0, 1)
    assert (refused.problem.reason, refused.problem.field) == ("INVALID_OPTION", "notify")


async def test_a_task_is_stored_as_it_was_asked_for(stub: Stub, app: wherry.App) -> None:
    request = tasks_pb2.EnqueueRequest(
        type="shop.send",
        payload='{"to": "a@example.com", "big": 123456789012345678901234567890}',
        key="a",
        priority=5,
        max_attempts=3,
        delay=Duration(seconds=60),
        timeout=Duration(seconds=1, nanos=500_000_000),
        tags=["x"],
        headers={"trace": "1"},
        retry=tasks_pb2.RetryPolicy(fixed=tasks_pb2.RetryPolicy.Fixed(delay=Duration(seconds=2))),
    )

    response = await stub.Enqueue(request)

    task = await app.aget_task(response.id)
    assert response.created
    assert task is not None
    assert task.payload == {"to": "a@example.com", "big": 123456789012345678901234567890}
    assert (task.queue, task.key, task.priority, task.max_attempts) == ("default", "a", 5, 3)
    assert (task.timeout_seconds, task.tags, task.headers) == (1.5, ("x",), {"trace": "1"})
    assert task.retry == {"kind": "fixed", "delay": 2.0}
    assert (task.run_after - task.created_at).total_seconds() == pytest.approx(60, abs=0.1)


async def test_a_known_key_is_answered_with_its_task(stub: Stub) -> None:
    first = await stub.Enqueue(tasks_pb2.EnqueueRequest(type="a", key="k"))

    again = await stub.Enqueue(tasks_pb2.EnqueueRequest(type="a", key="k"))
    other = await stub.Enqueue(tasks_pb2.EnqueueRequest(type="a", key="k", payload='{"x":1}'))

    assert (again.id, again.created, again.payload_matches) == (first.id, False, True)
    assert (other.id, other.created, other.payload_matches) == (first.id, False, False)


async def test_a_bad_option_is_refused_by_its_field(stub: Stub) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Enqueue(tasks_pb2.EnqueueRequest(type="a", priority=101))

    error = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "priority=101: must be between -100 and 100"
    found = details(error)
    assert (found["ErrorInfo"].reason, found["ErrorInfo"].domain) == ("INVALID_OPTION", "wherry")
    assert found["BadRequest"].field_violations[0].field == "priority"


async def test_a_bad_payload_is_refused_by_its_path(stub: Stub) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Enqueue(tasks_pb2.EnqueueRequest(type="a", payload="[1]"))

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details(caught.value)["ErrorInfo"].reason == "INVALID_PAYLOAD"


@pytest.mark.parametrize("letter", ["x", "☃", "😀", "\\u0000"])
async def test_an_error_that_is_long_reaches_the_caller_whole(stub: Stub, letter: str) -> None:
    deep = f'{{"{letter * 3000}": {{"{letter * 3000}": 1e999}}}}'

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Enqueue(tasks_pb2.EnqueueRequest(type="a", payload=deep))

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details(caught.value)["ErrorInfo"].reason == "INVALID_PAYLOAD"


async def test_a_batch_of_nothing_but_long_errors_is_answered(stub: Stub) -> None:
    bad = tasks_pb2.EnqueueRequest(type="a", payload=f'{{"{"☃" * 4000}": 1e999}}')

    batch = tasks_pb2.EnqueueBatchRequest(tasks=[bad] * 1000)
    response = await stub.EnqueueBatch(batch)

    assert {result.problem.reason for result in response.results} == {"INVALID_PAYLOAD"}
    assert response.ByteSize() < 4 * 1024 * 1024


async def test_a_bad_task_of_a_batch_spoils_no_other(stub: Stub) -> None:
    request = tasks_pb2.EnqueueBatchRequest(
        tasks=[
            tasks_pb2.EnqueueRequest(type="a"),
            tasks_pb2.EnqueueRequest(type="a", timeout=Duration(nanos=-(2**31))),
            tasks_pb2.EnqueueRequest(type=""),
            tasks_pb2.EnqueueRequest(type="b"),
        ]
    )

    results = (await stub.EnqueueBatch(request)).results

    assert [result.WhichOneof("result") for result in results] == [
        "task",
        "problem",
        "problem",
        "task",
    ]
    assert [(r.problem.reason, r.problem.field) for r in results[1:3]] == [
        ("INVALID_OPTION", "timeout"),
        ("INVALID_OPTION", "type"),
    ]


async def test_all_or_nothing_stores_nothing_if_one_is_bad(stub: Stub, app: wherry.App) -> None:
    tasks = [tasks_pb2.EnqueueRequest(type="a"), tasks_pb2.EnqueueRequest(type="")]

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.EnqueueBatch(tasks_pb2.EnqueueBatchRequest(tasks=tasks, all_or_nothing=True))

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details(caught.value)["ErrorInfo"].metadata["index"] == "1"
    assert not (await app.alist_tasks()).tasks


async def test_a_batch_beyond_the_limit_is_refused_whole(stub: Stub) -> None:
    tasks = [tasks_pb2.EnqueueRequest(type="a")] * 1001

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.EnqueueBatch(tasks_pb2.EnqueueBatchRequest(tasks=tasks))

    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "1,001 tasks in one call; the limit is 1,000" in (caught.value.details() or "")


async def test_a_request_beyond_the_limit_is_refused_by_its_size(stub: Stub) -> None:
    huge = tasks_pb2.EnqueueRequest(type="a", payload=" " * (16 * 1024 * 1024))

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Enqueue(huge)

    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details(caught.value)["ErrorInfo"].reason == "LIMIT_REACHED"
    assert "RetryInfo" not in details(caught.value)
    told = f"takes {huge.ByteSize():,} bytes; the limit is 16,777,216: split it"
    assert told in (caught.value.details() or "")


@pytest.mark.parametrize("half_mebibytes", [34, 80])
async def test_an_app_is_told_to_split_what_is_too_large(
    door: GrpcDoor, app: wherry.App, half_mebibytes: int
) -> None:
    task = {"type": "a", "payload": {"x": "x" * 512 * 1024}}

    async with wherry.App(f"grpc://127.0.0.1:{door.port}") as remote:
        with pytest.raises(wherry.LimitReached, match=r"too large: split it|: split it$") as caught:
            await remote.aenqueue_many([task] * half_mebibytes)

    assert caught.value.retry_seconds is None
    assert not (await app.alist_tasks()).tasks


async def test_a_request_of_just_the_limit_is_read(stub: Stub) -> None:
    limit_bytes = 16 * 1024 * 1024
    request = tasks_pb2.EnqueueBatchRequest(
        tasks=[tasks_pb2.EnqueueRequest(type="a", payload=" " * (limit_bytes - 20))]
    )
    request.tasks[0].payload += " " * (limit_bytes - request.ByteSize())
    assert request.ByteSize() == limit_bytes

    answer = await stub.EnqueueBatch(request)

    assert answer.results[0].problem.reason == "INVALID_PAYLOAD"


async def test_a_task_is_read_by_its_id_and_by_its_key(stub: Stub) -> None:
    id = await enqueued(stub, key="k", payload='{"x":1}')

    by_id = await stub.GetTask(tasks_pb2.GetTaskRequest(id=id))
    by_key = await stub.GetTask(
        tasks_pb2.GetTaskRequest(key=tasks_pb2.TaskKey(queue="mail", key="k"))
    )

    assert by_id == by_key
    assert (by_id.task.id, by_id.task.state) == (id, tasks_pb2.STATE_QUEUED)
    assert by_id.task.payload == '{"x":1}'


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (tasks_pb2.GetTaskRequest(id=99), grpc.StatusCode.NOT_FOUND),
        (
            tasks_pb2.GetTaskRequest(key=tasks_pb2.TaskKey(queue="mail", key="k")),
            grpc.StatusCode.NOT_FOUND,
        ),
        (tasks_pb2.GetTaskRequest(), grpc.StatusCode.INVALID_ARGUMENT),
        (tasks_pb2.GetTaskRequest(id=0), grpc.StatusCode.INVALID_ARGUMENT),
        (tasks_pb2.GetTaskRequest(key=tasks_pb2.TaskKey()), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_a_task_that_is_not_there_or_not_named_is_refused(
    stub: Stub, request_: tasks_pb2.GetTaskRequest, code: grpc.StatusCode
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetTask(request_)

    assert caught.value.code() is code


async def test_history_that_is_too_long_for_an_answer_begins_later(stub: Stub) -> None:
    id = await enqueued(stub, max_attempts=200)
    error = leases_pb2.Error(type="E", traceback="x" * 32_000)
    for _ in range(150):
        [task] = (await leasing(stub)).tasks
        failed = leases_pb2.FailRequest(lease=task.lease, error=error, retry_after=Duration())
        await stub.Fail(failed)

    read = (await stub.GetTask(tasks_pb2.GetTaskRequest(id=id))).task

    assert [attempt.attempt for attempt in read.history] == [
        *range(151 - len(read.history), 151),
    ]
    assert 100 < len(read.history) < 150


async def test_pages_of_tasks_follow_one_another(stub: Stub) -> None:
    ids = [await enqueued(stub) for _ in range(5)]
    found: list[int] = []
    token = ""

    for _ in range(3):
        page = await stub.ListTasks(tasks_pb2.ListTasksRequest(page_size=2, page_token=token))
        found += [task.id for task in page.tasks]
        token = page.next_page_token

    assert found == ids[::-1]
    assert not token


async def test_a_page_of_large_tasks_is_short_and_nothing_is_left_out(stub: Stub) -> None:
    large = '{"x":"%s"}' % ("x" * 1_000_000)
    ids = [await enqueued(stub, payload=large) for _ in range(7)]
    found: list[int] = []
    token, pages = "", 0

    while token or not pages:
        page = await stub.ListTasks(tasks_pb2.ListTasksRequest(page_token=token))
        found += [task.id for task in page.tasks]
        token, pages = page.next_page_token, pages + 1

    assert found == ids[::-1]
    assert pages > 1


async def test_a_filter_narrows(stub: Stub) -> None:
    wanted = await enqueued(stub, type="b", tags=["t"])
    await enqueued(stub, type="b")
    await enqueued(stub, tags=["t"])
    narrow = TaskFilter(type="b", tag="t", queue="mail", states=[tasks_pb2.STATE_QUEUED])

    page = await stub.ListTasks(tasks_pb2.ListTasksRequest(filter=narrow))

    assert [task.id for task in page.tasks] == [wanted]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (tasks_pb2.ListTasksRequest(page_size=1001), "page_size"),
        (tasks_pb2.ListTasksRequest(page_size=-1), "page_size"),
        (tasks_pb2.ListTasksRequest(page_token="x"), "page_token"),
        (tasks_pb2.ListTasksRequest(page_token="0"), "page_token"),
        (tasks_pb2.ListTasksRequest(page_token="9" * 20), "page_token"),
        (
            tasks_pb2.ListTasksRequest(filter=TaskFilter(states=[tasks_pb2.STATE_UNSPECIFIED])),
            "states[0]",
        ),
    ],
)
async def test_a_page_that_cannot_be_is_refused_by_its_field(
    stub: Stub, request_: tasks_pb2.ListTasksRequest, field: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.ListTasks(request_)

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details(caught.value)["BadRequest"].field_violations[0].field == field


async def test_a_queued_task_is_canceled_and_put_back(stub: Stub) -> None:
    id = await enqueued(stub)

    canceled = await stub.CancelTask(tasks_pb2.CancelTaskRequest(id=id, reason="no more"))
    again = await stub.CancelTask(tasks_pb2.CancelTaskRequest(id=id))
    requeued = await stub.RequeueTask(tasks_pb2.RequeueTaskRequest(id=id))
    twice = await stub.RequeueTask(tasks_pb2.RequeueTaskRequest(id=id))

    assert canceled.answer == tasks_pb2.CANCEL_ANSWER_CANCELED
    assert again.answer == tasks_pb2.CANCEL_ANSWER_FINAL
    assert requeued.answer == tasks_pb2.REQUEUE_ANSWER_QUEUED
    assert twice.answer == tasks_pb2.REQUEUE_ANSWER_NOT_FINAL


async def test_the_cancel_of_a_leased_task_is_a_request(stub: Stub) -> None:
    task = await leased(stub)

    canceled = await stub.CancelTask(tasks_pb2.CancelTaskRequest(id=task.id))

    assert canceled.answer == tasks_pb2.CANCEL_ANSWER_REQUESTED
    beat = (await stub.Heartbeat(leases_pb2.HeartbeatRequest(leases=[task.lease]))).beats[0]
    assert beat.answer == leases_pb2.REPORTED_CANCEL_REQUESTED


async def test_a_requeue_whose_key_is_taken_tells_by_whom(stub: Stub) -> None:
    first = await enqueued(stub, key="k", key_ttl=Duration())
    await stub.CancelTask(tasks_pb2.CancelTaskRequest(id=first))
    second = await enqueued(stub, key="k")

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.RequeueTask(tasks_pb2.RequeueTaskRequest(id=first))

    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    info = details(caught.value)["ErrorInfo"]
    assert info.reason == "KEY_TAKEN"
    assert dict(info.metadata) == {"task_id": str(first), "key": "k", "taken_by": str(second)}


async def test_many_are_canceled_requeued_and_purged_by_filter_and_by_id(stub: Stub) -> None:
    ids = [await enqueued(stub) for _ in range(3)]
    mail = tasks_pb2.Selection(filter=TaskFilter(queue="mail"), page_size=2)

    counted = await stub.CancelTasks(tasks_pb2.CancelTasksRequest(selection=mail, dry_run=True))
    some = await stub.CancelTasks(tasks_pb2.CancelTasksRequest(selection=mail))
    mail.page_token = some.next_page_token
    rest = await stub.CancelTasks(tasks_pb2.CancelTasksRequest(selection=mail))
    back = await stub.RequeueTasks(
        tasks_pb2.RequeueTasksRequest(selection=tasks_pb2.Selection(ids=[ids[0], 999]))
    )
    gone = await stub.PurgeTasks(
        tasks_pb2.PurgeTasksRequest(selection=tasks_pb2.Selection(ids=ids))
    )

    assert (counted.matched, len(counted.tasks)) == (2, 0)
    assert [task.id for task in (*some.tasks, *rest.tasks)] == ids[::-1]
    assert {task.answer for task in some.tasks} == {tasks_pb2.CANCEL_ANSWER_CANCELED}
    assert not rest.next_page_token
    assert [task.answer for task in back.tasks] == [
        tasks_pb2.REQUEUE_ANSWER_QUEUED,
        tasks_pb2.REQUEUE_ANSWER_UNKNOWN,
    ]
    assert [task.answer for task in gone.tasks] == [
        tasks_pb2.PURGE_ANSWER_NOT_FINAL,
        tasks_pb2.PURGE_ANSWER_PURGED,
        tasks_pb2.PURGE_ANSWER_PURGED,
    ]


@pytest.mark.parametrize(
    "selection",
    [
        tasks_pb2.Selection(),
        tasks_pb2.Selection(filter=TaskFilter()),
        tasks_pb2.Selection(filter=TaskFilter(states=[tasks_pb2.STATE_QUEUED])),
        tasks_pb2.Selection(ids=[1], filter=TaskFilter(queue="mail")),
        tasks_pb2.Selection(ids=[0]),
    ],
)
async def test_a_selection_of_everything_or_of_nothing_is_refused(
    stub: Stub, selection: tasks_pb2.Selection
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.CancelTasks(tasks_pb2.CancelTasksRequest(selection=selection))

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
