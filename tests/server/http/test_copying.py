"""Tasks are copied over HTTP: what is not said is taken over as it is stored."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

import wherry
from tests.server.http.test_operators import get, post

# Digits that no float holds.
PAYLOAD = '{"n":9007199254740993,"deep":[{"x":1.5}]}'


async def test_a_copy_is_told_with_its_address(client: httpx.AsyncClient) -> None:
    task = {"type": "a", "queue": "q", "payload": json.loads(PAYLOAD), "key": "k", "tags": ["t"]}
    old = (await post(client, "/tasks", **task))["id"]

    found = await client.post(f"/tasks/{old}:copy", json={})

    new = found.json()["id"]
    assert (found.status_code, found.json()) == (201, {"id": new})
    assert found.url.join(found.headers["location"]).path == f"/api/v1/tasks/{new}"
    answer = await client.get(f"/tasks/{new}")
    assert PAYLOAD in answer.text
    copy = answer.json()["task"]
    assert (copy["queue"], copy["tags"], copy.get("key")) == ("q", ["t"], None)


async def test_what_is_said_takes_the_place_of_its_own(
    client: httpx.AsyncClient, app: wherry.App
) -> None:
    old = (await post(client, "/tasks", type="a"))["id"]
    await app.acancel(int(old))
    said = f'{{"payload":{PAYLOAD},"queue":"other","delay":"60s","purge":true,"reason":"typo"}}'

    found = await client.post(
        f"/tasks/{old}:copy", content=said, headers={"content-type": "application/json"}
    )

    answer = await client.get(f"/tasks/{found.json()['id']}")
    assert PAYLOAD in answer.text
    assert answer.json()["task"]["queue"] == "other"
    assert (await client.get(f"/tasks/{old}")).status_code == 404
    assert [task["id"] for task in (await get(client, "/tasks"))["tasks"]] == [found.json()["id"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"payload": [1]}, "$"),
        ({"payload": None}, "$"),
        ({"queue": "*"}, "queue"),
        ({"delay": "soon"}, "delay"),
        ({"purge": "yes"}, "purge"),
        ({"key": "k"}, "key"),
    ],
)
async def test_what_is_wrong_is_told_by_its_field_and_stores_nothing(
    client: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    old = (await post(client, "/tasks", type="a"))["id"]

    found = await client.post(f"/tasks/{old}:copy", json=body)

    assert found.status_code == 400
    assert found.json()["field"] == field
    assert [task["id"] for task in (await get(client, "/tasks"))["tasks"]] == [old]


async def test_what_has_not_ended_is_not_taken_away(client: httpx.AsyncClient) -> None:
    old = (await post(client, "/tasks", type="a"))["id"]

    found = await client.post(f"/tasks/{old}:copy", json={"purge": True})

    assert (found.status_code, found.json()["reason"]) == (409, "NOT_FINAL")
    assert [task["id"] for task in (await get(client, "/tasks"))["tasks"]] == [old]


async def test_what_is_not_there_is_not_copied(client: httpx.AsyncClient) -> None:
    assert (await client.post("/tasks/999999:copy", json={})).status_code == 404
    assert (await client.post("/tasks/0:copy", json={})).status_code == 400
