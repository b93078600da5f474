"""Long polls over HTTP: they end when their client does, and lose nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import wherry
from tests.facts import await_for
from tests.server.http.raw import connected, request
from wherry.server.auth import Authenticator, Polls
from wherry.server.desk import Desk
from wherry.server.http import HttpDoor, HttpSettings
from wherry.server.service import Service

POLL = b'{"worker_id": "w", "queues": ["q"], "wait": "30s"}'


def times_leased(task: Any) -> int:
    """How often: a new token ends in sixteen zeros, and each lease adds one (decision 30)."""
    return int(task["token"]) % 2**16


async def leased(client: httpx.AsyncClient, **said: Any) -> Any:
    answer = await client.post("/leases", json={"worker_id": "w", "queues": ["q"], **said})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_poll_waits_for_a_task(client: httpx.AsyncClient, desk: Desk) -> None:
    polling = asyncio.create_task(leased(client, wait="30s"))
    await await_for(lambda: desk._waiters)

    await client.post("/tasks", json={"type": "a", "queue": "q"})

    found = await polling
    [task] = found["tasks"]
    assert task["attempt"] == 1
    assert found["directive"] == "none"
    assert float(found["waited"].removesuffix("s")) < 30


async def test_a_poll_without_a_wait_is_answered_at_once(client: httpx.AsyncClient) -> None:
    assert (await leased(client))["tasks"] == []


async def test_no_more_is_leased_than_was_asked_for(client: httpx.AsyncClient) -> None:
    tasks = [{"type": "a", "queue": "q"} for _ in range(5)]
    await client.post("/tasks:batch", json={"tasks": tasks})

    found = await leased(client, max_tasks=3, wait="5s")

    assert len(found["tasks"]) == 3


async def test_a_poll_whose_client_hung_up_is_given_up(
    door: HttpDoor, desk: Desk, client: httpx.AsyncClient
) -> None:
    async with connected(door.port) as raw:
        await raw.send(request("POST", "/api/v1/leases", POLL, port=door.port))
        await await_for(lambda: desk._waiters)
    await await_for(lambda: not desk._waiters)

    stored = await client.post("/tasks", json={"type": "a", "queue": "q"})

    task = (await client.get(f"/tasks/{stored.json()['id']}")).json()["task"]
    assert (task["state"], times_leased(task)) == ("queued", 0)


async def test_leases_of_a_client_that_is_gone_go_back_at_once(
    door: HttpDoor, client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = (await client.post("/tasks", json={"type": "a", "queue": "q"})).json()["id"]
    lease, arrived, go = service.lease, asyncio.Event(), asyncio.Event()

    async def slow(*args: Any, **said: Any) -> Any:
        found = await lease(*args, **said)
        arrived.set()
        # The cancellation that comes meanwhile is overlooked, as it is between two awaits.
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                go.set()
        return found

    monkeypatch.setattr(service, "lease", slow)
    async with connected(door.port) as raw:
        await raw.send(request("POST", "/api/v1/leases", POLL, port=door.port))
        await arrived.wait()
    await go.wait()

    async def is_back() -> Any:
        task = (await client.get(f"/tasks/{id}")).json()["task"]
        return task["state"] == "queued" and times_leased(task) == 1

    await await_for(is_back)
    monkeypatch.undo()
    [task] = (await leased(client, wait="5s"))["tasks"]
    assert task["attempt"] == 1


async def test_leases_go_back_if_the_client_hangs_up_while_it_is_answered(
    door: HttpDoor, client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = (await client.post("/tasks", json={"type": "a", "queue": "q"})).json()["id"]
    lease = service.lease

    async with connected(door.port) as raw:

        async def leave_first(*args: Any, **said: Any) -> Any:
            found = await lease(*args, **said)
            # A reset, which the next write finds.
            raw.writer.transport.abort()
            return found

        monkeypatch.setattr(service, "lease", leave_first)
        await raw.send(request("POST", "/api/v1/leases", POLL, port=door.port))

        async def is_back() -> Any:
            task = (await client.get(f"/tasks/{id}")).json()["task"]
            return task["state"] == "queued" and times_leased(task) == 1

        await await_for(is_back)


async def test_who_polls_too_often_is_told_when_to_come_back(
    service: Service, authenticator: Authenticator, desk: Desk
) -> None:
    settings = HttpSettings(address="127.0.0.1:0")
    door = HttpDoor(service, authenticator, Polls(1), settings)
    port = await door.start()
    base = f"http://127.0.0.1:{port}/api/v1"
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=10) as client:
        polling = asyncio.create_task(leased(client, wait="30s"))
        await await_for(lambda: desk._waiters)

        answer = await client.post("/leases", json={"worker_id": "w"})

        desk.drain()
        assert (await polling)["tasks"] == []
    await door.stop(0.5)
    assert answer.status_code == 429
    assert answer.json()["reason"] == "LIMIT_REACHED"
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["retry_after"] == "1s"


async def test_everything_that_ends_an_attempt_can_be_reported(
    client: httpx.AsyncClient,
) -> None:
    tasks = [{"type": "a", "queue": "q", "max_attempts": 2} for _ in range(6)]
    await client.post("/tasks:batch", json={"tasks": tasks})
    held = (await leased(client, max_tasks=6, wait="5s"))["tasks"]
    leases = [task["lease"] for task in held]
    error = {"type": "ValueError", "message": "no", "traceback": "line 1"}
    outcomes = [
        {"lease": leases[0], "complete": {"result": {"n": 1}}},
        {"lease": leases[1], "fail": {"error": error, "retry_after": "60s"}},
        {"lease": leases[2], "fail": {"error": error, "retry": False, "reason": "for good"}},
        {"lease": leases[3], "cancel": {"reason": "not needed"}},
        {"lease": leases[4], "snooze": {"delay": "60s"}},
        {"lease": leases[5], "release": {}},
    ]

    answers = (await client.post("/leases:report", json={"outcomes": outcomes})).json()["answers"]

    said = [answer["answer"] for answer in answers]
    assert said == ["done", "requeued", "failed", "canceled", "requeued", "requeued"]
    assert answers[1]["retry_after"] == "60s"
    ids = [task["id"] for task in held]
    read = [(await client.get(f"/tasks/{id}")).json()["task"] for id in ids]
    assert [task["state"] for task in read] == [
        "succeeded",
        "queued",
        "failed",
        "canceled",
        "queued",
        "queued",
    ]
    assert read[1]["history"][0]["traceback"] == "line 1"
    assert read[2]["reason"] == "for good"


async def test_single_reports_do_the_same(client: httpx.AsyncClient) -> None:
    tasks = [{"type": "a", "queue": "q"} for _ in range(3)]
    await client.post("/tasks:batch", json={"tasks": tasks})
    held = (await leased(client, max_tasks=3, wait="5s", lease_duration="45s"))["tasks"]
    one, two, three = (task["lease"] for task in held)

    failed = await client.post("/leases:fail", json={"lease": one, "error": {"message": "no"}})
    snoozed = await client.post("/leases:snooze", json={"lease": two, "delay": "5s"})
    released = await client.post("/leases:release", json={"lease": three})

    assert failed.json()["answer"] == "requeued"
    assert failed.json()["retry_after"].endswith("s")
    assert snoozed.json() == {"answer": "requeued"}
    assert released.json() == {"answer": "requeued"}


async def test_a_task_in_an_open_transaction_is_busy_for_two_seconds(
    client: httpx.AsyncClient, app: wherry.App, connect: Callable[..., Any]
) -> None:
    id = (await client.post("/tasks", json={"type": "a", "queue": "q"})).json()["id"]
    [task] = (await leased(client, wait="5s"))["tasks"]
    holder = connect(autocommit=False)
    holder.execute("select id from wherry.live where id = %s for update", (int(id),))

    answer = await client.post("/leases:complete", json={"lease": task["lease"]})

    holder.rollback()
    assert answer.status_code == 409
    assert answer.json()["reason"] == "BUSY"
    assert answer.json()["retry_after"] == "0.1s"
    assert answer.headers["retry-after"] == "1"


async def test_a_refusal_names_the_field_of_the_body(client: httpx.AsyncClient) -> None:
    # Not too long in characters, but in bytes.
    answer = await client.post("/leases", json={"worker_id": "ü" * 200})

    assert (answer.status_code, answer.json()["field"]) == (400, "worker_id")
