"""A gRPC door on the test's database, and a channel to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest

import wherry
from wherry.server.auth import Authenticator, Polls
from wherry.server.grpc import GrpcDoor, GrpcSettings
from wherry.server.service import Service
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub


@pytest.fixture
async def authenticator(app: wherry.App) -> AsyncIterator[Authenticator]:
    """Lets everybody do everything."""
    made = Authenticator(app, required=False)
    yield made
    await made.aclose()


@pytest.fixture
async def door(service: Service, authenticator: Authenticator) -> AsyncIterator[GrpcDoor]:
    """A door that listens; `door.port` says where."""
    made = GrpcDoor(service, authenticator, Polls(), GrpcSettings(address="127.0.0.1:0"))
    await made.start()
    yield made
    await made.stop(0.5)


@pytest.fixture
async def channel(door: GrpcDoor) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the door."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as made:
        yield made


@pytest.fixture
def stub(channel: grpc.aio.Channel) -> TaskQueueStub:
    """The generated client."""
    return TaskQueueStub(channel)
