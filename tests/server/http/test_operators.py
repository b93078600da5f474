"""What operators do over HTTP: lists, bulk changes, queues, workers, the server itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx
import pytest

import wherry
from tests.facts import await_for
from wherry.server.http import finding_calls
from wherry.testing import Clock


async def post(client: httpx.AsyncClient, path: str, **body: Any) -> Any:
    answer = await client.post(path, json=body)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


async def get(client: httpx.AsyncClient, path: str, **query: Any) -> Any:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def stored(client: httpx.AsyncClient, n: int, **said: Any) -> list[str]:
    tasks = [{"type": "a", **said} for _ in range(n)]
    results = (await post(client, "/tasks:batch", tasks=tasks))["results"]
    return [result["task"]["id"] for result in results]


async def test_tasks_are_listed_page_by_page(client: httpx.AsyncClient) -> None:
    ids = await stored(client, 5, queue="q")
    await stored(client, 1, queue="other")

    first = await get(client, "/tasks", queue="q", page_size=2)
    second = await get(
        client, "/tasks", queue="q", page_size=2, page_token=first["next_page_token"]
    )
    last = await get(client, "/tasks", queue="q", page_size=2, page_token=second["next_page_token"])

    found = [task["id"] for page in (first, second, last) for task in page["tasks"]]
    assert found == sorted(ids, key=int, reverse=True)
    assert "next_page_token" not in last
    assert "history" not in first["tasks"][0]


async def test_lists_are_narrowed_by_everything(client: httpx.AsyncClient, clock: Clock) -> None:
    [old] = await stored(client, 1, queue="q", tags=["x"])
    clock.advance(minutes=5)
    [new] = await stored(client, 1, queue="q", type="b")

    async def listed(**query: Any) -> list[str]:
        return [task["id"] for task in (await get(client, "/tasks", **query))["tasks"]]

    assert await listed(tag="x") == [old]
    assert await listed(type="b") == [new]
    assert await listed(older_than="60s") == [old]
    assert await listed(state=["queued", "dead"]) == [new, old]
    assert await listed(state="dead") == []
    assert await listed(error="%") == []


async def test_a_page_of_large_tasks_is_a_shorter_one(
    client: httpx.AsyncClient, monkeypatch: Any
) -> None:
    ids = await stored(client, 3, payload={"x": "y" * 1000})
    monkeypatch.setattr(finding_calls, "_MOST_CHARACTERS", 1500)

    found: list[str] = []
    query: dict[str, str] = {}
    while True:
        page = await get(client, "/tasks", **query)
        found += [task["id"] for task in page["tasks"]]
        if "next_page_token" not in page:
            break
        query = {"page_token": page["next_page_token"]}

    assert found == sorted(ids, key=int, reverse=True)


async def test_tasks_are_canceled_requeued_and_purged_by_id(client: httpx.AsyncClient) -> None:
    one, two = await stored(client, 2)
    named = {"selection": {"ids": [one, two, "999"]}, "reason": "not needed"}

    tried = await post(client, "/tasks:cancel", **named, dry_run=True)
    canceled = await post(client, "/tasks:cancel", **named)
    back = await post(client, f"/tasks/{one}:requeue")
    again = await post(client, f"/tasks/{one}:cancel", reason="again")
    gone = await post(client, "/tasks:purge", selection={"ids": [one, two]})

    assert tried == {"matched": 2, "tasks": []}
    assert [task["answer"] for task in canceled["tasks"]] == ["canceled", "canceled", "unknown"]
    assert (back, again) == ({"answer": "queued"}, {"answer": "canceled"})
    assert [task["answer"] for task in gone["tasks"]] == ["purged", "purged"]
    assert (await client.get(f"/tasks/{one}")).status_code == 404


@pytest.mark.parametrize("id", [2_147_483_650, 9_007_199_254_740_993])
async def test_a_large_id_is_shown_and_acted_on(
    client: httpx.AsyncClient, connect: Callable[..., Any], id: int
) -> None:
    """SCL-02: as text, since many a reader of JSON makes a double of a number."""
    connect().execute("select setval('wherry.task_id', %s, false)", [id])

    [made] = await stored(client, 1)
    canceled = await post(client, f"/tasks/{made}:cancel", reason="large")
    shown = (await get(client, f"/tasks/{made}"))["task"]

    assert (made, shown["id"]) == (str(id), str(id))
    assert (canceled, shown["state"]) == ({"answer": "canceled"}, "canceled")


async def test_tasks_are_changed_by_filter_page_by_page(client: httpx.AsyncClient) -> None:
    await stored(client, 3, queue="q")
    matching = {"filter": {"queue": "q"}, "page_size": 2}

    first = await post(client, "/tasks:cancel", selection=matching)
    token = first["next_page_token"]
    second = await post(client, "/tasks:cancel", selection={**matching, "page_token": token})
    back = await post(client, "/tasks:requeue", selection={"filter": {"queue": "q"}})

    assert (first["matched"], second["matched"], back["matched"]) == (2, 1, 3)
    assert "next_page_token" not in second


async def test_a_selection_is_either_ids_or_a_filter_that_narrows(
    client: httpx.AsyncClient,
) -> None:
    bad: list[dict[str, Any]] = [
        {},
        {"ids": ["1"], "filter": {"queue": "q"}},
        {"filter": {}},
        {"filter": {"states": ["queued"]}},
        {"ids": [1]},
        {"ids": ["x"]},
    ]
    for selection in bad:
        answer = await client.post("/tasks:cancel", json={"selection": selection})
        assert answer.status_code == 400, selection


async def test_a_taken_key_is_409_until_the_task_goes_on_without_it(
    client: httpx.AsyncClient,
) -> None:
    [old] = await stored(client, 1, key="k", key_ttl="0s")
    await post(client, f"/tasks/{old}:cancel")
    [new] = await stored(client, 1, key="k")

    refused = await client.post(f"/tasks/{old}:requeue", json={})
    bulk = await post(client, "/tasks:requeue", selection={"ids": [old]})
    without = await post(client, f"/tasks/{old}:requeue", without_key=True)

    assert (refused.status_code, refused.json()["reason"]) == (409, "KEY_TAKEN")
    assert bulk["tasks"] == [{"id": old, "answer": "key_taken", "key": "k", "taken_by": new}]
    assert without == {"answer": "queued"}


async def test_a_paused_queue_says_so_and_gives_nothing(client: httpx.AsyncClient) -> None:
    await stored(client, 1, queue="q")

    paused = await post(client, "/queues:pause", queue="q", reason="mending")
    twice = await post(client, "/queues:pause", queue="q")
    held = await post(client, "/leases", worker_id="w", queues=["q"])
    [queue] = (await get(client, "/queues"))["queues"]
    resumed = await post(client, "/queues:resume", queue="q")
    [after] = (await get(client, "/queues"))["queues"]

    assert (paused, twice, resumed) == (
        {"changed": True},
        {"changed": False},
        {"changed": True, "still_paused": []},
    )
    assert held["tasks"] == []
    assert queue["name"] == "q"
    assert queue["pause"]["reason"] == "mending"
    assert queue["pause"]["paused_at"].endswith("Z")
    assert "pause" not in after
    assert after["oldest_due"].endswith("s")


async def test_workers_are_seen_directed_and_leave(
    client: httpx.AsyncClient, app: wherry.App
) -> None:
    await post(client, "/leases", worker_id="w1", queues=["q"], types=["a"])

    async def listed() -> Any:
        return (await get(client, "/workers"))["workers"]

    await await_for(listed)
    [worker] = await listed()
    told = await post(client, "/workers:direct", names=["w1", "w2"], directive="drain")

    async def drained() -> Any:
        beaten = await post(client, "/leases:heartbeat", leases=[], worker_id="w1")
        return beaten["directive"] == "drain"

    await await_for(drained)
    left = await post(client, "/workers:leave", worker_id="w1")

    async def gone() -> Any:
        return not await listed()

    await await_for(gone)
    assert (worker["name"], worker["alive"], worker["directive"]) == ("w1", True, "none")
    assert told == {"told": 1}
    assert left == {}


async def test_the_server_says_what_it_is(client: httpx.AsyncClient) -> None:
    assert await get(client, "/server") == {
        "version": wherry.__version__,
        "batch_limit": 1000,
        "request_limit_bytes": 16 * 1024 * 1024,
        "longest_wait": "60s",
    }


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cron": "never"}, "cron"),
        ({"tz": "Nowhere"}, "tz"),
        ({"payload": {"a": "\0"}}, "payload.a"),
        ({"timeout": "4000000000s"}, "timeout"),
    ],
)
async def test_a_schedule_that_cannot_be_is_named_by_its_place(
    client: httpx.AsyncClient, wrong: dict[str, Any], field: str
) -> None:
    good = {"cron": "* * * * *", "type": "t"}
    schedules = [{"name": "a", **good}, {"name": "b", **good, **wrong}]
    body = {"worker_id": "w", "instance": str(UUID(int=7)), "schedules": schedules}

    answer = await client.post("/schedules:declare", json=body)

    assert answer.status_code == 400, answer.text
    assert answer.json()["field"] == f"schedules[1].{field}"


async def test_a_pause_is_lifted_as_it_is_listed(client: httpx.AsyncClient) -> None:
    await post(client, "/types:pause", type="a")
    [listed] = (await get(client, "/paused-types"))["types"]
    asked = {name: listed[name] for name in ("type", "queue") if name in listed}

    again = await post(client, "/types:pause", **asked)
    resumed = await post(client, "/types:resume", **asked)

    assert (again, resumed) == (
        {"changed": False},
        {"changed": True, "still_paused": []},
    )
    assert await get(client, "/paused-types") == {"types": []}


async def test_who_resumes_is_told_what_stays_paused(client: httpx.AsyncClient) -> None:
    for type, queue in (("a", "q"), ("a", None), ("b", "q"), ("c", "q2")):
        await post(client, "/types:pause", type=type, queue=queue)

    of_queue = (await post(client, "/queues:resume", queue="q"))["still_paused"]
    of_type = (await post(client, "/types:resume", type="a", queue="q"))["still_paused"]

    assert sorted((each["type"], each.get("queue", "*")) for each in of_queue) == [
        ("a", "*"),
        ("a", "q"),
        ("b", "q"),
    ]
    assert [(each["type"], "queue" in each) for each in of_type] == [("a", False)]


async def test_who_resumes_a_type_is_told_that_its_queue_is_paused(
    client: httpx.AsyncClient,
) -> None:
    await post(client, "/queues:pause", queue="q", reason="mending")

    in_it = await post(client, "/types:resume", type="a", queue="q")
    in_all = await post(client, "/types:resume", type="a")

    assert in_it["queue_pause"]["reason"] == "mending"
    assert in_all == {"changed": False, "still_paused": []}
