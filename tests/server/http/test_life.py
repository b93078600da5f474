"""The life of a task over HTTP."""

from __future__ import annotations

from typing import Any

import httpx


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
