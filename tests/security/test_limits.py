"""How much one caller may ask for at once, through either door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import wherry
from tests.facts import await_for
from tests.security.doors import Calls, GrpcCalls, Said
from tests.security.places import MINE, bearer, create, place
from wherry.config import ServerSettings
from wherry.server.run import Server

ANYWHERE = "127.0.0.1:0"
MOST_POLLS = 20
POLL: dict[str, Any] = {"worker_id": "w", "queues": [MINE], "wait": "30s"}


@pytest.fixture
def settings() -> ServerSettings:
    """A server that lets each token hold few polls open; all else is as it is."""
    assert ServerSettings().polls_per_token == 1000
    return ServerSettings(
        grpc_address=ANYWHERE, http_address=ANYWHERE, auth=True, polls_per_token=MOST_POLLS
    )


@pytest.fixture
async def me(app: wherry.App) -> str:
    """Somebody who may do everything."""
    return bearer(await create(app, "enqueue", "work", "read", "admin"))


@pytest.fixture
async def polling(server: Server) -> AsyncIterator[list[asyncio.Task[Said]]]:
    """Polls that go on; canceled afterwards."""
    held: list[asyncio.Task[Said]] = []
    yield held
    for poll in held:
        poll.cancel()
    await asyncio.gather(*held, return_exceptions=True)


def waiting(server: Server) -> int:
    running: Any = vars(server)["_running"]
    return int(running.desk.waiting)


async def test_one_poll_too_many_is_told_when_to_come_back_and_others_go_on(
    server: Server,
    app: wherry.App,
    doors: list[Calls],
    me: str,
    polling: list[asyncio.Task[Said]],
) -> None:
    another = bearer(await create(app, "work"))
    # Through both doors: it is one limit.
    polling += [asyncio.create_task(doors[n % 2]("Lease", POLL, me)) for n in range(MOST_POLLS)]
    await await_for(lambda: waiting(server) == MOST_POLLS)

    for call in doors:
        refused = await call("Lease", POLL, me)
        at_once = await call("Lease", {**POLL, "wait": "0s"}, another)
        works = await call("Enqueue", {"type": "t"}, me)

        assert refused.code == "RESOURCE_EXHAUSTED"
        if isinstance(call, GrpcCalls):
            assert "RetryInfo" in refused.text
        else:
            assert refused.headers["retry-after"] == "1"
            assert refused.body["retry_after"] == "1s"
        assert at_once.code == works.code == "OK"
    # Who goes away makes room.
    for poll in polling[:2]:
        poll.cancel()
    await await_for(lambda: waiting(server) == MOST_POLLS - 2)
    polling += [asyncio.create_task(call("Lease", POLL, me)) for call in doors]
    await await_for(lambda: waiting(server) == MOST_POLLS)


async def test_a_thousand_and_one_of_anything_are_refused_and_change_nothing(
    app: wherry.App, doors: list[Calls], me: str
) -> None:
    there = await place(app, MINE)
    many = 1001
    named = [f"n{n}" for n in range(many)]
    asked: list[tuple[str, dict[str, Any]]] = [
        ("EnqueueBatch", {"tasks": [{"type": "t"}] * many}),
        ("Report", {"outcomes": [{"lease": there.lease, "complete": {}}] * many}),
        ("Heartbeat", {"leases": [there.lease] * 10_001}),
        ("CancelTasks", {"selection": {"ids": list(range(1, many + 1))}}),
        ("RequeueTasks", {"selection": {"ids": list(range(1, many + 1))}}),
        ("PurgeTasks", {"selection": {"ids": list(range(1, many + 1))}}),
        ("CancelTasks", {"selection": {"filter": {"queue": MINE}, "page_size": many}}),
        ("ListTasks", {"page_size": many}),
        ("Lease", {"worker_id": "w", "queues": named}),
        ("Lease", {"worker_id": "w", "types": named}),
        ("Lease", {"worker_id": "w", "max_tasks": many}),
        ("Lease", {"worker_id": "w", "max_last": many}),
        ("Lease", {"worker_id": "w", "wait": "60.001s"}),
        ("Lease", {"worker_id": "w", "wait": "-1s"}),
        ("Lease", {"worker_id": "w", "lease_duration": "86401s"}),
        ("Lease", {"worker_id": "w", "confirm_within": "61s"}),
        ("Heartbeat", {"leases": [there.lease], "extend_by": "86401s"}),
        ("DirectWorkers", {"names": named, "directive": "DIRECTIVE_STOP"}),
        ("Enqueue", {"type": "t" * 1000}),
        ("Enqueue", {"type": "t", "tags": [f"t{n}" for n in range(1000)]}),
        ("Enqueue", {"type": "t", "headers": {"h": "x" * 1_000_000}}),
        ("Enqueue", {"type": "t", "payload": '{"x": "' + "x" * 2_000_000 + '"}'}),
        ("Complete", {"lease": there.lease, "result": '"' + "x" * 2_000_000 + '"'}),
    ]
    for call in doors:
        for rpc, fields in asked:
            said = await call(rpc, fields, me)

            where = f"{call.name} {rpc} {str(fields)[:60]}: {said.code} {said.text[:200]}"
            assert said.code in ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"), where
            assert len(said.text) < 3000, where
    page = await app.alist_tasks()
    assert {task.id: task.state for task in page.tasks} == {
        there.ready: "queued",
        there.leased: "leased",
        there.ended: "succeeded",
    }
