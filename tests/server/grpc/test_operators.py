"""Queues, workers and the server itself over gRPC."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

import wherry
from tests.server.grpc.asking import Stub, becomes, details, enqueued, leasing
from wherry.wire.v1 import leases_pb2, operators_pb2, schedules_pb2


async def test_queues_are_counted(stub: Stub) -> None:
    await enqueued(stub)
    await enqueued(stub)
    await enqueued(stub, delay=Duration(seconds=60))
    await leasing(stub)

    [queue] = (await stub.ListQueues(operators_pb2.ListQueuesRequest())).queues

    assert (queue.name, queue.ready, queue.delayed, queue.leased) == ("mail", 1, 1, 1)
    assert queue.HasField("oldest_due")
    assert not queue.HasField("pause")


async def test_nothing_is_leased_from_a_paused_queue(stub: Stub) -> None:
    await enqueued(stub)
    pause = operators_pb2.PauseQueueRequest(queue="mail", reason="the mail server is down")

    changed = [(await stub.PauseQueue(pause)).changed for _ in range(2)]

    assert changed == [True, False]
    assert not (await leasing(stub)).tasks
    [queue] = (await stub.ListQueues(operators_pb2.ListQueuesRequest())).queues
    assert (queue.pause.actor, queue.pause.reason) == ("anonymous", "the mail server is down")
    resume = operators_pb2.ResumeQueueRequest(queue="mail")
    assert [(await stub.ResumeQueue(resume)).changed for _ in range(2)] == [True, False]
    assert len((await leasing(stub)).tasks) == 1


async def test_who_resumes_is_told_what_stays_paused(stub: Stub) -> None:
    for type, queue in (("a", "mail"), ("a", None), ("b", "mail"), ("c", "other")):
        await stub.PauseType(operators_pb2.PauseTypeRequest(type=type, queue=queue))

    of_queue = await stub.ResumeQueue(operators_pb2.ResumeQueueRequest(queue="mail"))
    of_type = await stub.ResumeType(operators_pb2.ResumeTypeRequest(type="a"))

    assert not any(each.HasField("queue") and not each.queue for each in of_queue.still_paused)
    assert sorted((each.type, each.queue) for each in of_queue.still_paused) == [
        ("a", ""),
        ("a", "mail"),
        ("b", "mail"),
    ]
    assert [(each.type, each.queue) for each in of_type.still_paused] == [("a", "mail")]


async def test_who_resumes_a_type_is_told_that_its_queue_is_paused(stub: Stub) -> None:
    await stub.PauseQueue(operators_pb2.PauseQueueRequest(queue="mail", reason="mending"))

    in_it = await stub.ResumeType(operators_pb2.ResumeTypeRequest(type="a", queue="mail"))
    in_all = await stub.ResumeType(operators_pb2.ResumeTypeRequest(type="a"))

    assert (in_it.queue_pause.actor, in_it.queue_pause.reason) == ("anonymous", "mending")
    assert not in_all.HasField("queue_pause")


async def test_a_worker_is_listed_told_and_forgotten(stub: Stub) -> None:
    async def listed() -> operators_pb2.Worker | None:
        # A worker is heard of by whatever it asks for.
        await leasing(stub, types=["shop.send"])
        found = (await stub.ListWorkers(operators_pb2.ListWorkersRequest())).workers
        return next(iter(found), None)

    worker = await becomes(listed)
    assert worker is not None
    assert (worker.name, list(worker.queues), worker.alive) == ("w", ["mail"], True)
    assert worker.host == "127.0.0.1"

    told = await stub.DirectWorkers(
        operators_pb2.DirectWorkersRequest(names=["w"], directive=leases_pb2.DIRECTIVE_DRAIN)
    )

    assert told.told == 1

    async def heard() -> bool:
        beat = await stub.Heartbeat(leases_pb2.HeartbeatRequest(worker_id="w"))
        return bool(beat.directive == leases_pb2.DIRECTIVE_DRAIN)

    await becomes(heard)
    assert (await leasing(stub)).directive == leases_pb2.DIRECTIVE_DRAIN

    await stub.LeaveWorker(operators_pb2.LeaveWorkerRequest(worker_id="w"))

    async def gone() -> bool:
        found = (await stub.ListWorkers(operators_pb2.ListWorkersRequest())).workers
        return not any(worker.alive for worker in found)

    await becomes(gone)


async def test_the_server_tells_what_it_is_and_takes(stub: Stub) -> None:
    server = await stub.GetServer(operators_pb2.GetServerRequest())

    assert server.version == wherry.__version__
    assert (server.batch_limit, server.request_limit_bytes) == (1000, 16 * 1024 * 1024)
    assert server.longest_wait == Duration(seconds=60)


async def test_a_directive_of_a_newer_client_is_refused(stub: Stub) -> None:
    request = operators_pb2.DirectWorkersRequest.FromString(b"\x0a\x01w\x10\x63")

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.DirectWorkers(request)

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details(caught.value)["BadRequest"].field_violations[0].field == "directive"


async def test_nobody_is_told_without_a_name(stub: Stub) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.DirectWorkers(operators_pb2.DirectWorkersRequest())

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cron": "never"}, "cron"),
        ({"tz": "Nowhere"}, "tz"),
        ({"payload": "[]"}, "payload"),
        ({"timeout": Duration(seconds=-1)}, "timeout"),
    ],
)
async def test_a_schedule_that_cannot_be_is_named_by_its_place(
    stub: Stub, wrong: dict[str, Any], field: str
) -> None:
    good: dict[str, Any] = {"cron": "* * * * *", "type": "t"}
    said = ({"name": "a", **good}, {"name": "b", **good, **wrong})
    schedules = [schedules_pb2.NewSchedule(**each) for each in said]
    request = schedules_pb2.DeclareSchedulesRequest(
        worker_id="w", instance=str(UUID(int=7)), schedules=schedules
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.DeclareSchedules(request)

    violation = details(caught.value)["BadRequest"].field_violations[0]
    assert violation.field == f"schedules[1].{field}"
