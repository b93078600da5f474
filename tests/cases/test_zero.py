"""Others took a zero for "not given", so that it meant for ever, or their default: CRON-14.

What is stored is looked at in the table itself, for every option that a number can be given for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import grpc
import grpc.aio
import httpx
import psycopg
import pytest
from click.testing import CliRunner
from google.protobuf.duration_pb2 import Duration

import wherry
from tests.cases.test_cancel import HERE
from wherry.cli import main
from wherry.domain.retry import Additive, Fixed
from wherry.server.run import Server
from wherry.wire.v1 import leases_pb2, tasks_pb2
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub

Connect = Callable[..., psycopg.Connection[Any]]
# Stores a task of the key `k` with these options set to zero, and no other option.
Enqueue: TypeAlias = Callable[[wherry.App, Server, tuple[str, ...]], Awaitable[object]]

LENGTHS = ("delay", "key_ttl", "timeout", "ttl")
RETRY = {"kind": "additive", "base": 0.0, "jitter": 0.0, "cap": 0.0}


class Refused(Exception):
    """What was answered instead of a task, as text."""


def numbers(zeros: tuple[str, ...], length: object) -> dict[str, Any]:
    """Return the zeros by their names, those of lengths of time as this surface writes them."""
    return {name: length if name in LENGTHS else 0 for name in zeros if name != "retry"}


async def by_app(app: wherry.App, zeros: tuple[str, ...], length: object) -> None:
    options = numbers(zeros, length)
    if "retry" in zeros:
        options["retry"] = Additive(base=0, jitter=0, cap=0)
    try:
        await app.aenqueue("t", key="k", **options)
    except wherry.InvalidOption as refused:
        raise Refused(str(refused)) from refused


async def by_python(app: wherry.App, server: Server, zeros: tuple[str, ...]) -> None:
    await by_app(app, zeros, 0)


async def by_python_with_floats(app: wherry.App, server: Server, zeros: tuple[str, ...]) -> None:
    await by_app(app, zeros, 0.0)


async def by_a_type(app: wherry.App, server: Server, zeros: tuple[str, ...]) -> None:
    """What a type says of itself is not what comes of a zero."""
    said: dict[str, Any] = {"priority": 9, "key_ttl": 9, "retry": Fixed(9)}
    typed = app.task(name="t", **{name: said[name] for name in said if name in zeros})(lambda: None)
    options = numbers(zeros, timedelta(0))
    if "retry" in zeros:
        options["retry"] = Additive(base=0, jitter=0, cap=0)
    try:
        await typed.using(key="k", **options).aenqueue()
    except wherry.InvalidOption as refused:
        raise Refused(str(refused)) from refused


async def by_server(app: wherry.App, server: Server, zeros: tuple[str, ...]) -> None:
    async with wherry.App(f"grpc://{server.bound.grpc_url}") as remote:
        await by_app(remote, zeros, 0)


async def by_grpc(app: wherry.App, server: Server, zeros: tuple[str, ...]) -> None:
    request = tasks_pb2.EnqueueRequest(type="t", key="k", **numbers(zeros, Duration()))
    if "retry" in zeros:
        nothing = tasks_pb2.RetryPolicy.Additive(base=Duration(), jitter=Duration(), cap=Duration())
        request.retry.additive.CopyFrom(nothing)
    async with grpc.aio.insecure_channel(server.bound.grpc_url or "") as channel:
        stub: Any = TaskQueueStub(channel)
        try:
            await stub.Enqueue(request)
        except grpc.aio.AioRpcError as refused:
            if refused.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                raise
            raise Refused(refused.details()) from refused


async def by_http(app: wherry.App, server: Server, zeros: tuple[str, ...]) -> None:
    nothing = {"additive": {"base": "0s", "jitter": "0s", "cap": "0s"}}
    # A null is the same as nothing at all.
    body = dict.fromkeys((*LENGTHS, "priority", "max_attempts", "retry"))
    body |= {"type": "t", "key": "k", **numbers(zeros, "0s")}
    body["retry"] = nothing if "retry" in zeros else None
    async with httpx.AsyncClient(base_url=server.bound.http_url or "", trust_env=False) as client:
        answer = await client.post("/api/v1/tasks", json=body)
    if answer.status_code != 201:
        assert answer.status_code == 400
        raise Refused(answer.text)


async def by_command_line(app: wherry.App, server: Server, zeros: tuple[str, ...]) -> None:
    words = ["enqueue", "t", "--key", "k"]
    for name in numbers(zeros, 0):
        words += [f"--{name.replace('_', '-')}", "0"]
    done = await asyncio.to_thread(CliRunner().invoke, main, words, env={"WHERRY_DSN": app.dsn})
    if done.exit_code != 0:
        assert done.exit_code == 2
        raise Refused(done.output.replace("-", "_"))


async def by_sql(app: wherry.App, server: Server, zeros: tuple[str, ...]) -> None:
    said = ["'default'", "'t'", "key => 'k'"]
    said += [f"{name} => {value}" for name, value in numbers(zeros, "interval '0'").items()]
    if "retry" in zeros:
        said.append("""retry => '{"kind": "additive", "base": 0, "jitter": 0, "cap": 0}'""")
    call = f"select id from wherry.enqueue({', '.join(said)})"
    async with await psycopg.AsyncConnection.connect(app.dsn, autocommit=True) as connection:
        try:
            await connection.execute(call.encode())
        except psycopg.Error as refused:
            raise Refused(str(refused)) from refused


SURFACES = [
    by_python,
    by_python_with_floats,
    by_a_type,
    by_server,
    by_grpc,
    by_http,
    by_command_line,
    by_sql,
]


@pytest.mark.parametrize("enqueue", SURFACES)
async def test_a_zero_is_stored_as_one_and_what_is_absent_is_not(
    app: wherry.App, connect: Connect, enqueue: Enqueue
) -> None:
    """CRON-14: each option that may be zero, and none of them."""
    connection = connect()

    async def stored(*zeros: str) -> dict[str, Any]:
        connection.execute("with gone as (delete from wherry.live) delete from wherry.key")
        await enqueue(app, server, zeros)
        [row] = connection.execute(
            "select priority, max_attempts, state, run_after = created_at, timeout_seconds,"
            " ttl_seconds, key_ttl_seconds, retry from wherry.live"
        ).fetchall()
        names = ("priority", "max_attempts", "state", "at_once", "timeout", "ttl", "key_ttl")
        return dict(zip((*names, "retry"), row, strict=True))

    async with Server(app, HERE) as server:
        absent = await stored()
        zeros = ("priority", "delay", "key_ttl", "retry")
        zero = await stored(*zeros)

    assert absent == {
        "priority": 0,
        "max_attempts": 20,
        "state": "ready",
        "at_once": True,
        "timeout": None,
        "ttl": None,
        "key_ttl": None,
        "retry": None,
    }
    assert zero == absent | {
        "key_ttl": 0.0,
        # The command line has no option for it.
        "retry": None if enqueue is by_command_line else RETRY,
    }


@pytest.mark.parametrize("option", ["timeout", "ttl", "max_attempts"])
@pytest.mark.parametrize("enqueue", SURFACES)
async def test_a_zero_that_would_mean_never_is_refused_by_its_name(
    app: wherry.App, connect: Connect, enqueue: Enqueue, option: str
) -> None:
    """CRON-14: no attempt, or none that ends in time, is not what leaving it out means."""
    async with Server(app, HERE) as server:
        with pytest.raises(Refused, match=option):
            await enqueue(app, server, (option,))

    assert connect().execute("select id from wherry.live").fetchall() == []


async def test_a_retry_after_zero_is_at_once_and_not_by_the_policy(
    app: wherry.App, connect: Connect
) -> None:
    """CRON-14: nor is a snooze of zero longer than that; by an App, gRPC and HTTP."""
    connection = connect()

    def waits() -> bool:
        [[state]] = connection.execute("select state from wherry.live").fetchall()
        connection.execute("update wherry.live set state = 'ready', run_after = created_at")
        return bool(state == "delayed")

    async def app_fails(lease: wherry.Lease, after: float | None) -> None:
        await app.afail(lease, "no", after=after)

    async def grpc_fails(lease: str, after: float | None) -> None:
        request = leases_pb2.FailRequest(lease=lease, error=leases_pb2.Error(type="E"))
        if after is not None:
            request.retry_after.CopyFrom(Duration())
        await stub.Fail(request)

    async def http_fails(lease: str, after: float | None) -> None:
        body = {
            "lease": lease,
            "error": {"type": "E"},
            "retry_after": None if after is None else "0s",
        }
        answer = await client.post("/api/v1/leases:fail", json=body)
        assert answer.status_code == 200, answer.text

    await app.aenqueue("t", retry=Fixed(60))
    async with (
        Server(app, HERE) as server,
        grpc.aio.insecure_channel(server.bound.grpc_url or "") as channel,
        httpx.AsyncClient(base_url=server.bound.http_url or "", trust_env=False) as client,
    ):
        stub: Any = TaskQueueStub(channel)
        for after, delayed in ((None, True), (0.0, False)):
            [lease] = await app.alease(worker="w")
            await app_fails(lease, after)
            assert waits() is delayed
            for fails in (grpc_fails, http_fails):
                request = leases_pb2.LeaseRequest(worker_id="w", queues=["default"])
                [held] = (await stub.Lease(request)).tasks
                await fails(held.lease, after)
                assert waits() is delayed, (fails.__name__, after)
        [lease] = await app.alease(worker="w")
        await app.asnooze(lease, 0)
        assert not waits()
        [held] = (
            await stub.Lease(leases_pb2.LeaseRequest(worker_id="w", queues=["default"]))
        ).tasks
        await stub.Snooze(leases_pb2.SnoozeRequest(lease=held.lease, delay=Duration()))
        assert not waits()
