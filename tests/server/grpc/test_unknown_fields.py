"""A server that is older than its caller does nothing rather than a part of what is asked."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

import wherry
from tests.server.grpc.asking import Stub, details, enqueued, leased
from wherry.wire.v1 import leases_pb2, tasks_pb2

# Field 2047, a text, as a client of a later version would send it.
NEWER = b"\xfa\x7f\x03new"


def newer(message: Message) -> Any:
    """Return the message with a field that nobody here knows."""
    return type(message).FromString(message.SerializeToString() + NEWER)


def selected(*ids: int) -> tasks_pb2.Selection:
    return tasks_pb2.Selection(ids=ids)


async def test_a_field_that_is_not_known_is_refused_before_anything_is_done(
    stub: Stub, app: wherry.App
) -> None:
    id_ = await enqueued(stub)
    await app.acancel(id_)
    within = tasks_pb2.RequeueTasksRequest(selection=newer(selected(id_)))
    batch = tasks_pb2.EnqueueBatchRequest(
        tasks=[tasks_pb2.EnqueueRequest(type="t"), newer(tasks_pb2.EnqueueRequest(type="t"))]
    )
    calls = [
        (stub.RequeueTasks, newer(tasks_pb2.RequeueTasksRequest(selection=selected(id_))), ""),
        (stub.RequeueTasks, within, ".selection"),
        (stub.EnqueueBatch, batch, ".tasks[1]"),
    ]

    for call, request, place in calls:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(request)

        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert details(caught.value)["ErrorInfo"].reason == "INVALID_TASK"
        told = f"{request.DESCRIPTOR.full_name}{place} has no field 2047 on this server"
        assert told in (caught.value.details() or "")

    found = (await app.alist_tasks()).tasks
    assert [(task.id, task.state) for task in found] == [(id_, "canceled")]


async def test_what_a_worker_reports_is_taken_with_words_that_are_new(stub: Stub) -> None:
    task = await leased(stub)

    await stub.Complete(newer(leases_pb2.CompleteRequest(lease=task.lease)))

    assert (await stub.GetTask(tasks_pb2.GetTaskRequest(id=task.id))).task.state == (
        tasks_pb2.STATE_SUCCEEDED
    )
