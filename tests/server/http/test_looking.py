"""What is asked about tasks over HTTP."""

from __future__ import annotations

import httpx

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
