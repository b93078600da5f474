"""An empty queue over HTTP, as of a variable that is not set: refused wherever it may be said."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

_SCHEDULE = {"name": "s", "cron": "0 3 * * *", "type": "a", "queue": ""}

BODIES: list[tuple[str, dict[str, Any], str]] = [
    ("/tasks", {"type": "a", "queue": ""}, "queue"),
    ("/queues:pause", {"queue": ""}, "queue"),
    ("/queues:resume", {"queue": ""}, "queue"),
    ("/queues:limit", {"queue": "", "limits": {"max_running": 1}}, "queue"),
    ("/types:pause", {"type": "a", "queue": ""}, "queue"),
    ("/types:resume", {"type": "a", "queue": ""}, "queue"),
    ("/schedules", {"schedule": _SCHEDULE}, "schedule.queue"),
    ("/leases", {"worker_id": "w", "queues": [""]}, "queues[0]"),
    ("/tasks/1:copy", {"queue": ""}, "queue"),
    ("/tasks:requeue", {"selection": {"ids": ["1"]}, "to_queue": ""}, "to_queue"),
    ("/tasks:cancel", {"selection": {"filter": {"queue": ""}}}, "selection.filter.queue"),
]


@pytest.mark.parametrize(("path", "body", "field"), BODIES, ids=[path for path, *_ in BODIES])
async def test_an_empty_queue_is_refused_and_nothing_is_done(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], field: str
) -> None:
    answer = await client.post(path, json=body)

    assert answer.status_code == 400, answer.text
    assert answer.json()["field"] == field
    assert (await client.get("/paused-types")).json() == {"types": []}
    assert (await client.get("/tasks")).json()["tasks"] == []


@pytest.mark.parametrize("path", ["/tasks", "/tasks:count", "/tasks:groups"])
async def test_a_look_at_an_empty_queue_is_refused(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path, params={"queue": ""})

    assert (answer.status_code, answer.json().get("field")) == (400, "queue"), answer.text


async def test_who_names_an_empty_queue_for_a_type_is_told_what_to_do(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post("/types:pause", json={"type": "a", "queue": ""})

    assert "leave it out for all queues" in answer.json()["detail"]
