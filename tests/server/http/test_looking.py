"""What is asked about tasks over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import psycopg

import wherry
from tests.server.http.test_operators import get, stored


async def test_why_tells_what_holds_a_task(client: httpx.AsyncClient, app: wherry.App) -> None:
    [id_] = await stored(client, 1, queue="q")
    await app.apause_queue("q", reason="a flood")

    told = await get(client, f"/tasks/{id_}/why")

    assert (told["id"], told["state"], told["queue"]) == (id_, "queued", "q")
    assert [reason["code"] for reason in told["reasons"]] == ["queue_paused", "no_worker"]
    assert "a flood" in told["reasons"][0]["text"]
    assert told["reasons"][0]["at"] <= told["at"]


async def test_why_of_nobody_is_an_answer_and_of_no_id_is_refused(
    client: httpx.AsyncClient,
) -> None:
    told = await get(client, "/tasks/77/why")

    assert [reason["code"] for reason in told["reasons"]] == ["not_found"]
    assert "state" not in told
    assert (await client.get("/tasks/x/why")).status_code == 400


async def test_tasks_are_found_and_counted_by_a_query(client: httpx.AsyncClient) -> None:
    [id_] = await stored(client, 1, queue="q", key="k", payload={"at": {"city": "Graz"}})
    await stored(client, 2, queue="q", payload={"at": {"city": "Wien"}})
    query = {"queue": "q", "payload": "at.city=Graz", "timeout": "2.5s"}

    found = await get(client, "/tasks", **query)

    assert [task["id"] for task in found["tasks"]] == [id_]
    assert await get(client, "/tasks:count", **query) == {"tasks": 1, "capped": False}
    assert await get(client, "/tasks:count", queue="q", most=2) == {"tasks": 2, "capped": True}
    at = found["tasks"][0]["created_at"]
    assert (await get(client, "/tasks:count", key="k", created_after=at))["tasks"] == 1
    assert (await get(client, "/tasks:count", key="k", created_before=at))["tasks"] == 0
    assert (await get(client, "/tasks:count", finished_after=at))["tasks"] == 0


async def test_pages_lead_back(client: httpx.AsyncClient) -> None:
    await stored(client, 3, queue="q")
    first = await get(client, "/tasks", page_size=2)
    second = await get(client, "/tasks", page_size=2, page_token=first["next_page_token"])

    back = await get(client, "/tasks", page_size=2, page_token=second["previous_page_token"])

    assert back["tasks"] == first["tasks"]
    assert "previous_page_token" not in back


async def test_tasks_are_changed_by_what_their_payload_holds(client: httpx.AsyncClient) -> None:
    [id_] = await stored(client, 1, payload={"customer": 42})
    await stored(client, 1, payload={"customer": 7})
    selection = {"filter": {"payload": {"customer": 42}}}

    answer = await client.post("/tasks:cancel", json={"selection": selection})

    assert [task["id"] for task in answer.json()["tasks"]] == [id_]


async def test_a_search_that_takes_too_long_is_a_problem_of_its_own(
    client: httpx.AsyncClient, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    blocker = connect(autocommit=False)
    blocker.execute("lock table wherry.live in access exclusive mode")

    answer = await client.get("/tasks", params={"timeout": "1s"})

    blocker.rollback()
    assert (answer.status_code, answer.json()["reason"]) == (504, "TIMED_OUT")
    assert "narrow" in answer.json()["detail"]


async def test_dead_tasks_are_grouped_and_put_back_at_a_rate(
    client: httpx.AsyncClient, app: wherry.App
) -> None:
    ids = await stored(client, 2, queue="q")
    for lease in await app.alease(worker="w", queues=["q"], max_tasks=2):
        await app.afail(lease, f"no order {lease.id}", retry=False)

    [group] = (await get(client, "/tasks:groups", queue="q"))["groups"]

    assert (group["tasks"], group["sample_id"], group["queues"]) == (2, ids[-1], ["q"])
    selection = {"filter": {"fingerprint": group["fingerprint"]}}
    body = {"selection": selection, "per_second": 0.01, "delay": "60s"}
    answer = await client.post("/tasks:requeue", json=body)
    assert {task["answer"] for task in answer.json()["tasks"]} == {"queued"}
    assert await app.alease(worker="w", queues=["q"]) == []
