"""A long poll does not outlive the token with which it began."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

import wherry
from tests.facts import await_for
from wherry.commands.tokens import CreateToken, RevokeToken
from wherry.domain.token import Token, draw_token
from wherry.server.auth import Authenticator, Polls
from wherry.server.grpc import GrpcDoor, GrpcSettings
from wherry.server.service import Service
from wherry.wire.v1 import leases_pb2
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub


class Time:
    """A monotonic clock that goes on when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def polls() -> Polls:
    return Polls()


@pytest.fixture
async def stub(app: wherry.App, service: Service, time: Time, polls: Polls) -> AsyncIterator[Any]:
    """A client of a gRPC door that asks for tokens."""
    authenticator = Authenticator(app, clock=time)
    door = GrpcDoor(service, authenticator, polls, GrpcSettings(address="127.0.0.1:0"))
    await door.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        yield TaskQueueStub(channel)
    await door.stop(0.5)
    await authenticator.aclose()


@pytest.fixture
async def token(app: wherry.App) -> Token:
    drawn = draw_token()
    made = CreateToken(
        id=drawn.id, name="w", hash=drawn.hash, rights=("work",), queues=("*",), created_by="me"
    )
    await app.acarry(made)
    return drawn


async def lease(stub: Any, token: Token) -> leases_pb2.LeaseResponse:
    request = leases_pb2.LeaseRequest(worker_id="w", wait=Duration(seconds=30))
    metadata = [("authorization", f"Bearer {token.reveal()}")]
    response: leases_pb2.LeaseResponse = await stub.Lease(request, metadata=metadata)
    return response


async def test_who_is_revoked_while_they_wait_gets_nothing(
    stub: Any, app: wherry.App, token: Token, time: Time, polls: Polls
) -> None:
    poll = asyncio.create_task(lease(stub, token))
    await await_for(lambda: polls.open)
    await app.acarry(RevokeToken(token.id))
    time.now += 5.0

    id = (await app.aenqueue("t")).id

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await poll
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED

    async def is_back() -> Any:
        task = await app.aget_task(id)
        return task is not None and task.state == "queued" and task.attempts == 0

    await await_for(is_back, what="the task is queued again")


async def test_who_keeps_their_token_gets_what_they_waited_for(
    stub: Any, app: wherry.App, token: Token, time: Time, polls: Polls
) -> None:
    poll = asyncio.create_task(lease(stub, token))
    await await_for(lambda: polls.open)
    time.now += 5.0

    id = (await app.aenqueue("t")).id

    assert [task.id for task in (await poll).tasks] == [id]
    assert polls.open == 0
