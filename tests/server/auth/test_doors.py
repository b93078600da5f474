"""Tokens at both doors: a long poll does not outlive its token, and no secret is ever shown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import grpc.aio
import httpx
import pytest
from google.protobuf.duration_pb2 import Duration

import wherry
from tests.facts import await_for
from wherry.commands.tokens import CreateToken, RevokeToken
from wherry.domain.token import draw_token
from wherry.server.auth import Authenticator, Polls
from wherry.server.grpc import GrpcDoor, GrpcSettings
from wherry.server.http import HttpDoor, HttpSettings
from wherry.server.service import Service
from wherry.wire.v1 import leases_pb2
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub

# Polls for so many seconds; returns the ids that it got, or the text of a refusal.
Poll: TypeAlias = Callable[[str, int], Coroutine[Any, Any, list[int] | str]]


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
async def token(app: wherry.App) -> tuple[str, str]:
    """The id and the text of a token that may work."""
    drawn = draw_token()
    made = CreateToken(
        id=drawn.id, name="w", hash=drawn.hash, rights=("work",), queues=("*",), created_by="me"
    )
    await app.acarry(made)
    return drawn.id, f"Bearer {drawn.reveal()}"


@pytest.fixture(params=["grpc", "http"])
async def poll(
    request: pytest.FixtureRequest, app: wherry.App, service: Service, time: Time, polls: Polls
) -> AsyncIterator[Poll]:
    """Poll through a door that asks for tokens."""
    async with AsyncExitStack() as stack:
        authenticator = Authenticator(app, clock=time)
        stack.push_async_callback(authenticator.aclose)
        door = (
            GrpcDoor(service, authenticator, polls, GrpcSettings(address="127.0.0.1:0"))
            if request.param == "grpc"
            else HttpDoor(service, authenticator, polls, HttpSettings(address="127.0.0.1:0"))
        )
        await door.start()
        stack.push_async_callback(door.stop, 0.5)
        address = f"127.0.0.1:{door.port}"
        if request.param == "grpc":
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(address))
            yield over_grpc(TaskQueueStub(channel))
        else:
            client = httpx.AsyncClient(base_url=f"http://{address}", timeout=40, trust_env=False)
            yield over_http(await stack.enter_async_context(client))


def over_grpc(stub: Any) -> Poll:
    async def poll(authorization: str, seconds: int = 30) -> list[int] | str:
        request = leases_pb2.LeaseRequest(worker_id="w", wait=Duration(seconds=seconds))
        try:
            response = await stub.Lease(request, metadata=[("authorization", authorization)])
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAUTHENTICATED:
                raise
            return repr(error)
        return [task.id for task in response.tasks]

    return poll


def over_http(client: httpx.AsyncClient) -> Poll:
    async def poll(authorization: str, seconds: int = 30) -> list[int] | str:
        response = await client.post(
            "/api/v1/leases",
            json={"worker_id": "w", "wait": f"{seconds}s"},
            headers={"authorization": authorization},
        )
        if response.status_code == 401:
            return f"{response.headers}{response.text}"
        assert response.status_code == 200, response.text
        return [int(task["id"]) for task in response.json()["tasks"]]

    return poll


async def test_who_is_revoked_while_they_wait_gets_nothing(
    poll: Poll, app: wherry.App, token: tuple[str, str], time: Time, polls: Polls
) -> None:
    id, authorization = token
    polling = asyncio.create_task(poll(authorization, 30))
    await await_for(lambda: polls.open)
    await app.acarry(RevokeToken(id))
    time.now += 5.0

    task_id = (await app.aenqueue("t")).id

    assert isinstance(await polling, str)

    async def is_back() -> Any:
        task = await app.aget_task(task_id)
        return task is not None and task.state == "queued" and task.attempts == 0

    await await_for(is_back, what="the task is queued again, with all its attempts")


async def test_who_keeps_their_token_gets_what_they_waited_for(
    poll: Poll, app: wherry.App, token: tuple[str, str], time: Time, polls: Polls
) -> None:
    polling = asyncio.create_task(poll(token[1], 30))
    await await_for(lambda: polls.open)
    time.now += 5.0

    task_id = (await app.aenqueue("t")).id

    assert await polling == [task_id]
    assert polls.open == 0


async def test_no_secret_is_in_a_log_or_an_answer(
    poll: Poll,
    app: wherry.App,
    token: tuple[str, str],
    time: Time,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    id, authorization = token
    made_up = f"Bearer {draw_token().reveal()}"
    wrong = f"{authorization[:-1]}{'a' if authorization[-1] != 'a' else 'e'}"
    mistyped = f"{authorization} "[:-5]
    accepted = await poll(authorization, 0)

    answers = [await poll(shown, 0) for shown in (made_up, wrong, mistyped)]
    await app.acarry(RevokeToken(id))
    time.now += 5.0
    answers.append(await poll(authorization, 0))

    assert accepted == []
    assert all(isinstance(answer, str) for answer in answers)
    seen = caplog.text + "".join(map(str, answers))
    assert "wrong secret" in seen
    for shown in (authorization, made_up):
        assert shown.rpartition("_")[2][:40] not in seen
