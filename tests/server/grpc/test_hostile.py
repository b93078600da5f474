"""Callers that are slow, greedy or half gone."""

from __future__ import annotations

import asyncio
import gzip
import socket
from datetime import timedelta
from typing import Any

import grpc
import grpc.aio
import pytest

import wherry
from tests.server.grpc.asking import details
from wherry.config import ServerSettings
from wherry.server.auth import Authenticator, Polls
from wherry.server.grpc import GrpcDoor, GrpcSettings
from wherry.server.running import running_service
from wherry.wire.v1 import operators_pb2, tasks_pb2
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub


async def test_a_request_that_never_comes_is_not_waited_for(
    app: wherry.App, authenticator: Authenticator
) -> None:
    impatient = ServerSettings(request_timeout=timedelta(seconds=0.3))
    async with running_service(app, impatient) as running:
        door = GrpcDoor(
            running.service, authenticator, Polls(), GrpcSettings(address="127.0.0.1:0")
        )
        await door.start()
        channel: Any
        async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
            for name in ("Enqueue", "Lease"):
                # Its headers are sent, and then nothing.
                call = channel.stream_unary(f"/wherry.v1.TaskQueue/{name}")()

                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await asyncio.wait_for(call, 10)

                assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
                assert "came within 0.3 s" in (caught.value.details() or "")
        await door.stop(0.2)


async def test_a_call_without_a_request_is_refused(channel: Any) -> None:
    for name in ("Enqueue", "Lease"):
        call = channel.stream_unary(f"/wherry.v1.TaskQueue/{name}")(iter(()))

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call

        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert details(caught.value)["ErrorInfo"].reason == "INVALID_TASK"


async def test_a_small_request_that_unpacks_to_a_huge_one_is_refused(door: GrpcDoor) -> None:
    huge = tasks_pb2.EnqueueRequest(type="a", payload=" " * (32 * 1024 * 1024))
    assert len(gzip.compress(huge.SerializeToString())) < 100_000
    async with grpc.aio.insecure_channel(
        f"127.0.0.1:{door.port}", compression=grpc.Compression.Gzip
    ) as channel:
        stub: Any = TaskQueueStub(channel)

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Enqueue(huge)

        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_connection_that_grows_old_is_replaced_without_a_call_failing(
    app: wherry.App, authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers: list[str] = []

    def remembered(peer: str) -> str:
        peers.append(peer)
        return "127.0.0.1"

    monkeypatch.setattr("wherry.server.grpc.calls.host_of", remembered)
    brief = GrpcSettings(
        address="127.0.0.1:0",
        connection_age=timedelta(seconds=0.2),
        connection_age_grace=timedelta(seconds=5),
    )
    async with running_service(app) as running:
        door = GrpcDoor(running.service, authenticator, Polls(), brief)
        await door.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
            stub: Any = TaskQueueStub(channel)

            async with asyncio.timeout(60):
                while len(set(peers)) < 4:
                    await stub.GetServer(operators_pb2.GetServerRequest())

        await door.stop(0.2)


async def test_who_says_nothing_at_all_is_disconnected(
    app: wherry.App, authenticator: Authenticator
) -> None:
    impatient = ServerSettings(request_timeout=timedelta(seconds=0.3))
    async with running_service(app, impatient) as running:
        door = GrpcDoor(
            running.service, authenticator, Polls(), GrpcSettings(address="127.0.0.1:0")
        )
        await door.start()

        def silent() -> bytes:
            with socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
                received = b""
                while data := client.recv(4096):
                    received += data
                return received

        await asyncio.to_thread(silent)
        await door.stop(0.2)
