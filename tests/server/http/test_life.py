"""The life of a task over HTTP."""

from __future__ import annotations

from typing import Any

import httpx

from tests.waiting import Waiting


async def post(client: httpx.AsyncClient, path: str, body: Any, *, status: int = 200) -> Any:
    answer = await client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_task_is_stored_leased_beaten_completed_and_read(
    client: httpx.AsyncClient,
) -> None:
    stored = await client.post(
        "/tasks", json={"type": "mail", "payload": {"to": "ann"}, "key": "k1", "queue": "q"}
    )
    [task] = (await post(client, "/leases", {"worker_id": "w1", "queues": ["q"], "wait": "5s"}))[
        "tasks"
    ]
    beats = await post(client, "/leases:heartbeat", {"leases": [task["lease"]]})
    done = await post(client, "/leases:complete", {"lease": task["lease"], "result": [1, None]})
    read = (await client.get(f"/tasks/{task['id']}")).json()["task"]

    assert stored.status_code == 201
    assert stored.headers["location"] == f"tasks/{task['id']}"
    assert stored.json() == {"id": task["id"], "created": True, "payload_matches": True}
    assert task["payload"] == {"to": "ann"}
    assert task["remaining"].endswith("s")
    assert [beat["answer"] for beat in beats["beats"]] == ["extended"]
    assert done == {"answer": "done"}
    assert (read["state"], read["result"], read["worker"]) == ("succeeded", [1, None], "w1")
    assert read["created_at"].endswith("Z")


async def test_nobody_is_woken_who_must_not_be(client: httpx.AsyncClient, connect: Any) -> None:
    waiting = Waiting(connect())

    await client.post("/tasks", json={"type": "t", "notify": False})
    await client.post("/tasks:batch", json={"tasks": [{"type": "t"}] * 2, "notify": False})
    silent = waiting.heard()
    await client.post("/tasks:batch", json={"tasks": [{"type": "t"}] * 2})
    refused = await client.post("/tasks:batch", json={"tasks": [{"type": "t", "notify": False}]})

    assert (silent, waiting.heard()) == (0, 1)
    [result] = refused.json()["results"]
    assert (result["problem"]["reason"], result["problem"]["field"]) == ("INVALID_OPTION", "notify")
