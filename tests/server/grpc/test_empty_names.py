"""An empty queue over gRPC, as of a variable that is not set.

It is refused where the contract can tell it from none; where it cannot, the field says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc.aio
import pytest
from google.protobuf.descriptor import FieldDescriptor

from tests.server.grpc.asking import Stub, details
from wherry.wire.v1 import leases_pb2, operators_pb2, schedules_pb2, task_queue_pb2, tasks_pb2

_SCHEDULE: dict[str, Any] = {"name": "s", "cron": "0 3 * * *", "type": "a", "queue": ""}
_LIMITS = operators_pb2.QueueLimits(max_running=1)

ASKED: dict[str, Callable[[], Any]] = {
    "GetTask": lambda: tasks_pb2.GetTaskRequest(key=tasks_pb2.TaskKey(queue="", key="k")),
    "ListTasks": lambda: tasks_pb2.ListTasksRequest(filter=tasks_pb2.TaskFilter(queue="")),
    "CountTasks": lambda: tasks_pb2.CountTasksRequest(filter=tasks_pb2.TaskFilter(queue="")),
    "CopyTask": lambda: tasks_pb2.CopyTaskRequest(id=1, queue=""),
    "PauseQueue": lambda: operators_pb2.PauseQueueRequest(queue=""),
    "ResumeQueue": lambda: operators_pb2.ResumeQueueRequest(queue=""),
    "SetQueueLimits": lambda: operators_pb2.SetQueueLimitsRequest(queue="", limits=_LIMITS),
    "PauseType": lambda: operators_pb2.PauseTypeRequest(type="a", queue=""),
    "ResumeType": lambda: operators_pb2.ResumeTypeRequest(type="a", queue=""),
    "AddSchedule": lambda: schedules_pb2.AddScheduleRequest(
        schedule=schedules_pb2.NewSchedule(**_SCHEDULE)
    ),
    "Lease": lambda: leases_pb2.LeaseRequest(worker_id="w", queues=[""]),
}


@pytest.mark.parametrize("rpc", ASKED)
async def test_an_empty_queue_is_refused_and_nothing_is_done(stub: Stub, rpc: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await getattr(stub, rpc)(ASKED[rpc]())

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    [violation] = details(refused.value)["BadRequest"].field_violations
    assert violation.field == "queue"
    assert "empty" in str(refused.value.details())
    assert not (await stub.ListPausedTypes(operators_pb2.ListPausedTypesRequest())).types
    assert not (await stub.ListSchedules(schedules_pb2.ListSchedulesRequest())).schedules


async def test_no_queue_at_all_is_all_of_them_or_the_default_one(stub: Stub) -> None:
    await stub.PauseType(operators_pb2.PauseTypeRequest(type="a"))
    schedule = schedules_pb2.NewSchedule(name="s", cron="0 3 * * *", type="a")
    await stub.AddSchedule(schedules_pb2.AddScheduleRequest(schedule=schedule))

    [paused] = (await stub.ListPausedTypes(operators_pb2.ListPausedTypesRequest())).types
    assert not paused.HasField("queue")
    [listed] = (await stub.ListSchedules(schedules_pb2.ListSchedulesRequest())).schedules
    assert listed.queue == "default"


def test_only_one_queue_that_need_not_be_given_cannot_tell_empty_from_none() -> None:
    # Names of what a call is about are always given; what is answered says what there is.
    always = {"PauseQueueRequest", "ResumeQueueRequest", "SetQueueLimitsRequest", "TaskKey"}
    told = {"Task", "LeasedTask", "Schedule"}

    unsure = {
        message
        for message, queue in _queues_of_requests().items()
        if not queue.has_presence and message not in always | told
    }

    assert unsure == {"EnqueueRequest"}


def _queues_of_requests() -> dict[str, FieldDescriptor]:
    files = (tasks_pb2, operators_pb2, schedules_pb2, leases_pb2, task_queue_pb2)
    return {
        message.name: message.fields_by_name["queue"]
        for file in files
        for message in file.DESCRIPTOR.message_types_by_name.values()
        if "queue" in message.fields_by_name
    }
