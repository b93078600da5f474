"""The door itself: ports, health, reflection, draining, and who is let in."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.facts import await_for
from tests.server.grpc.asking import Stub, details, enqueued
from wherry.errors import ConfigError, Unauthenticated
from wherry.server.auth import Authenticator, Polls
from wherry.server.caller import ANYBODY, Caller
from wherry.server.desk import Desk
from wherry.server.grpc import GrpcDoor, GrpcSettings
from wherry.server.grpc.calls import host_of
from wherry.server.service import Service
from wherry.wire.v1 import leases_pb2, operators_pb2, task_queue_pb2, tasks_pb2
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Doorkeeper(Authenticator):
    """Lets in whoever says the word."""

    def __init__(self) -> None:
        self.seen: list[tuple[str | None, str]] = []

    async def caller_of(self, authorization: str | None, *, peer: str) -> Caller:
        self.seen.append((authorization, peer))
        if authorization != "Bearer word":
            raise Unauthenticated("a token is needed")
        return ANYBODY


@pytest.fixture
async def guarded(service: Service) -> Any:
    """A door whose keeper wants the word: the keeper, a channel, the stub."""
    keeper = Doorkeeper()
    door = GrpcDoor(service, keeper, Polls(), GrpcSettings(address="127.0.0.1:0"))
    await door.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        yield keeper, channel, TaskQueueStub(channel)
    await door.stop(0.5)


async def test_every_rpc_of_the_contract_is_answered(stub: Stub) -> None:
    found: set[grpc.StatusCode] = set()

    for method in task_queue_pb2.DESCRIPTOR.services_by_name["TaskQueue"].methods:
        call = getattr(stub, method.name)(GetMessageClass(method.input_type)())
        found.add(await call.code())

    assert found == {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}


async def test_an_unknown_method_is_called_that(channel: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary("/wherry.v1.TaskQueue/NoSuchVerb")(b"")

    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_port_that_is_taken_is_an_error(
    service: Service, authenticator: Authenticator, door: GrpcDoor
) -> None:
    second = GrpcDoor(
        service, authenticator, Polls(), GrpcSettings(address=f"127.0.0.1:{door.port}")
    )

    with pytest.raises(ConfigError) as caught:
        await second.start()

    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{door.port} for gRPC: Address already in use"
    )


async def test_an_address_of_another_machine_is_an_error(
    service: Service, authenticator: Authenticator
) -> None:
    door = GrpcDoor(service, authenticator, Polls(), GrpcSettings(address="192.0.2.1:0"))

    with pytest.raises(ConfigError, match="192.0.2.1:0 for gRPC: Cannot assign requested address"):
        await door.start()


async def test_a_name_that_nobody_knows_is_an_error(
    service: Service, authenticator: Authenticator
) -> None:
    door = GrpcDoor(service, authenticator, Polls(), GrpcSettings(address="nowhere.invalid:0"))

    with pytest.raises(ConfigError, match="cannot listen on nowhere.invalid:0 for gRPC: "):
        await door.start()


async def test_a_door_that_was_never_opened_can_be_closed(
    service: Service, authenticator: Authenticator
) -> None:
    await GrpcDoor(service, authenticator, Polls()).stop(1)


async def test_whoever_says_no_word_is_not_let_in(guarded: Any) -> None:
    keeper, _, stub = guarded

    for metadata in (
        (),
        (("authorization", "Bearer other"),),
        (("authorization", "Bearer word"), ("authorization", "Bearer other")),
    ):
        for call, request in (
            (stub.GetServer, operators_pb2.GetServerRequest()),
            (stub.Lease, leases_pb2.LeaseRequest(worker_id="w")),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(request, metadata=metadata)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert details(caught.value)["ErrorInfo"].reason == "UNAUTHENTICATED"
    await stub.GetServer(
        operators_pb2.GetServerRequest(), metadata=(("authorization", "Bearer word"),)
    )
    assert keeper.seen[-1] == ("Bearer word", "127.0.0.1")


async def test_strangers_are_told_nothing_of_what_they_sent(guarded: Any) -> None:
    _, channel, _ = guarded

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary("/wherry.v1.TaskQueue/Enqueue")(b"\xff\xff")

    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_health_is_told_to_everybody(guarded: Any) -> None:
    _, channel, _ = guarded
    health: Any = health_pb2_grpc.HealthStub(channel)

    for name in ("", "wherry.v1.TaskQueue"):
        found = await health.Check(health_pb2.HealthCheckRequest(service=name))
        assert found.status == SERVING


async def reflected(channel: Any, **options: Any) -> list[str]:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(**options)
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    answer = await call.read()
    await call.done_writing()
    if answer is grpc.aio.EOF:
        # Only the end says why.
        raise grpc.aio.AioRpcError(
            await call.code(), await call.initial_metadata(), await call.trailing_metadata()
        )
    return [service.name for service in answer.list_services_response.service]


async def test_reflection_tells_of_the_services(channel: grpc.aio.Channel) -> None:
    assert await reflected(channel) == ["grpc.health.v1.Health", "wherry.v1.TaskQueue"]


async def test_reflection_needs_the_word_where_calls_do(guarded: Any) -> None:
    _, channel, _ = guarded

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await reflected(channel)

    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert await reflected(channel, metadata=(("authorization", "Bearer word"),))


async def test_more_polls_than_allowed_are_refused_for_a_moment(
    service: Service, authenticator: Authenticator
) -> None:
    counter = Polls(2)
    door = GrpcDoor(service, authenticator, counter, GrpcSettings(address="127.0.0.1:0"))
    await door.start()
    request = leases_pb2.LeaseRequest(worker_id="w", wait=Duration(seconds=60))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        stub: Any = TaskQueueStub(channel)
        polls = [stub.Lease(request) for _ in range(2)]
        await await_for(lambda: counter._open.total() == 2)

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Lease(request)

        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert details(caught.value)["RetryInfo"].retry_delay == Duration(seconds=1)
        for poll in polls:
            poll.cancel()
        # Their places are free as soon as they are gone.
        await await_for(lambda: not counter._open)
    await door.stop(0.5)


async def test_a_thousand_polls_wait_on_one_connection(stub: Stub, desk: Desk) -> None:
    request = leases_pb2.LeaseRequest(
        worker_id="w", queues=["mail"], wait=Duration(seconds=60), max_tasks=1
    )
    polls: list[Any] = [asyncio.ensure_future(stub.Lease(request)) for _ in range(1000)]
    await await_for(lambda: desk.waiting == 1000, seconds=30)
    ids = {await enqueued(stub) for _ in range(20)}

    await await_for(lambda: sum(poll.done() for poll in polls) == 20)

    taken = [task.id for poll in polls if poll.done() for task in poll.result().tasks]
    assert sorted(taken) == sorted(ids)
    for poll in polls:
        poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)


async def test_who_watches_health_hears_of_the_drain(
    channel: grpc.aio.Channel, door: GrpcDoor, stub: Stub
) -> None:
    health: Any = health_pb2_grpc.HealthStub(channel)
    watching = health.Watch(health_pb2.HealthCheckRequest(service="wherry.v1.TaskQueue"))
    assert (await watching.read()).status == SERVING

    await door.drain()

    assert (await watching.read()).status == NOT_SERVING
    # Calls are answered still: the balancer needs a moment.
    await stub.GetServer(operators_pb2.GetServerRequest())
    watching.cancel()


async def test_a_stop_ends_open_streams_and_takes_no_longer_than_its_grace(
    service: Service, authenticator: Authenticator, desk: Desk
) -> None:
    door = GrpcDoor(service, authenticator, Polls(), GrpcSettings(address="127.0.0.1:0"))
    await door.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        stub: Any = TaskQueueStub(channel)
        health: Any = health_pb2_grpc.HealthStub(channel)
        watching = health.Watch(health_pb2.HealthCheckRequest())
        await watching.read()
        request = leases_pb2.LeaseRequest(worker_id="w", wait=Duration(seconds=60))
        polls = [asyncio.ensure_future(stub.Lease(request)) for _ in range(10)]
        await await_for(lambda: desk.waiting == 10)

        # They wait for a minute.
        async with asyncio.timeout(30):
            await door.stop(1.0)

        ended = await asyncio.gather(*polls, return_exceptions=True)
        assert len(ended) == 10
        assert not desk.waiting


async def test_a_stop_without_anything_open_takes_no_time(
    service: Service, authenticator: Authenticator
) -> None:
    door = GrpcDoor(service, authenticator, Polls(), GrpcSettings(address="127.0.0.1:0"))
    await door.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        stub: Any = TaskQueueStub(channel)
        await stub.GetServer(operators_pb2.GetServerRequest())

        async with asyncio.timeout(30):
            await door.stop(600)


async def test_a_client_that_pings_too_often_is_sent_away(door: GrpcDoor) -> None:
    def pinged() -> bool:
        with socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
            settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
            ping = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"12345678"
            received = b""
            client.sendall(4 * ping)
            while b"too_many_pings" not in received and (data := client.recv(4096)):
                received += data
            return b"too_many_pings" in received

    assert await asyncio.to_thread(pinged)


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.7:4711", "10.0.0.7"),
        ("ipv6:%5B::1%5D:4711", "::1"),
        ("ipv6:[fe80::1%25eth0]:4711", "fe80::1%eth0"),
        ("unix:/run/wherry.sock", "unix"),
        ("unknown", "unknown"),
        ("", ""),
    ],
)
def test_a_peer_is_known_by_its_host(peer: str, host: str) -> None:
    assert host_of(peer) == host


async def test_a_database_that_is_away_is_unavailable_without_its_name(
    stub: Stub, door: GrpcDoor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise OSError("secret")

    monkeypatch.setattr(door._service, "get_task", broken)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetTask(tasks_pb2.GetTaskRequest(id=1))

    assert caught.value.code() is grpc.StatusCode.INTERNAL
    found = details(caught.value)
    assert "secret" not in str(found)
    assert found["RequestInfo"].request_id in caplog.text


async def test_a_call_whose_caller_left_is_done_to_the_end(
    stub: Stub, door: GrpcDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(*_: Any, **__: Any) -> Any:
        began.set()
        await go.wait()
        ended.set()
        raise RuntimeError("nobody hears of it")

    monkeypatch.setattr(door._service, "get_task", slow)
    call = stub.GetTask(tasks_pb2.GetTaskRequest(id=1))
    await began.wait()

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    # The server hears of it on a way of its own.
    await stub.GetServer(operators_pb2.GetServerRequest())
    go.set()

    await asyncio.wait_for(ended.wait(), 10)
