"""Shorthands of the tests: stores a task, leases it, and looks at a refusal's details."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio
from google.protobuf.duration_pb2 import Duration
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]
    error_details_pb2,
    status_pb2,
)

from tests.facts import await_for
from wherry.wire.status import DETAILS_KEY
from wherry.wire.v1 import leases_pb2, tasks_pb2

# The generated stub, which is typed for blocking and for awaited calls at once.
Stub = Any


async def enqueued(stub: Stub, **fields: Any) -> int:
    """Store a task; returns its id."""
    request = tasks_pb2.EnqueueRequest(**{"type": "shop.send", "queue": "mail", **fields})
    return int((await stub.Enqueue(request)).id)


async def leased(stub: Stub, **fields: Any) -> leases_pb2.LeasedTask:
    """Store a task and lease it."""
    await enqueued(stub, **fields)
    [task] = (await leasing(stub)).tasks
    return task


async def leasing(stub: Stub, **fields: Any) -> leases_pb2.LeaseResponse:
    """Lease from the queue `mail`."""
    wait = fields.pop("wait", None)
    request = leases_pb2.LeaseRequest(**{"worker_id": "w", "queues": ["mail"], **fields})
    if wait is not None:
        request.wait.CopyFrom(Duration(seconds=wait))
    response: leases_pb2.LeaseResponse = await stub.Lease(request)
    return response


def details(error: grpc.aio.AioRpcError) -> dict[str, Any]:
    """Return the details of a refusal by the names of their types."""
    [data] = [value for name, value in error.trailing_metadata() if name == DETAILS_KEY]
    assert isinstance(data, bytes)
    status = status_pb2.Status.FromString(data)
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    found: dict[str, Any] = {}
    for detail in status.details:
        kind = getattr(error_details_pb2, detail.TypeName().rpartition(".")[2])
        found[kind.__name__] = message = kind()
        assert detail.Unpack(message)
    return found


async def becomes(fact: Callable[[], Awaitable[Any]], *, seconds: float = 10.0) -> Any:
    """Return what *fact* gives when awaited as soon as that is true."""
    asked: Any = fact
    return await await_for(asked, seconds=seconds)
