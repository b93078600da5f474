"""Payloads and results over HTTP come back equal, and what cannot is refused."""

from __future__ import annotations

import json
from typing import Any

import httpx

HARD = {
    "big": 2**70 + 1,
    "long": int("9" * 900),
    "float": 1e23,
    "tiny": 5e-324,
    "zero": -0.0,
    "text": "snow \u2603 \U0001f600 </script> \u2028",
    "deep": [[[[{"a": [None, True, False]}]]]],
    "": {"": ""},
}


def text_of(value: Any) -> str:
    return json.dumps({"type": "t", "payload": value})


async def stored(client: httpx.AsyncClient, body: str) -> dict[str, Any]:
    answer = await client.post("/tasks", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 201, answer.text
    read = await client.get(f"/tasks/{answer.json()['id']}")
    task: dict[str, Any] = json.loads(read.text)["task"]
    return task


async def test_a_payload_comes_back_equal(client: httpx.AsyncClient) -> None:
    task = await stored(client, text_of(HARD))

    assert task["payload"] == HARD
    assert str(task["payload"]["zero"]) == "-0.0"


async def test_a_payload_of_plain_sql_is_shown_word_for_word(
    client: httpx.AsyncClient, connect: Any
) -> None:
    task = await stored(client, text_of({}))
    odd = '{"a" : 1e400, "a": 1.00,  "n":12345678901234567890}'

    connect().execute(
        "update wherry.live set payload = %s::json where id = %s", (odd, int(task["id"]))
    )
    read = await client.get(f"/tasks/{task['id']}")

    assert f'"payload":{odd}' in read.text


async def test_a_result_comes_back_equal(client: httpx.AsyncClient) -> None:
    task = await stored(client, text_of({}))
    leased = await client.post("/leases", json={"worker_id": "w", "wait": "5s"})
    [held] = leased.json()["tasks"]

    body = {"lease": held["lease"], "result": HARD}
    done = await client.post("/leases:complete", json=body)
    read = await client.get(f"/tasks/{task['id']}")

    assert done.status_code == 200, done.text
    assert json.loads(read.text)["task"]["result"] == HARD


async def test_a_result_of_null_is_none(client: httpx.AsyncClient) -> None:
    task = await stored(client, text_of({}))
    [held] = (await client.post("/leases", json={"worker_id": "w", "wait": "5s"})).json()["tasks"]

    done = await client.post("/leases:complete", json={"lease": held["lease"], "result": None})

    read = (await client.get(f"/tasks/{task['id']}")).json()["task"]
    assert done.json() == {"answer": "done"}
    assert "result" not in read


async def test_every_option_comes_back(client: httpx.AsyncClient) -> None:
    said = {
        "queue": "q/ü :*",
        "type": "mail.send",
        "key": "k\n1",
        "priority": -7,
        "max_attempts": 3,
        "run_after": "2031-02-03T04:05:06.789012+02:00",
        "retry": {"additive": {"base": "0.5s", "jitter": "2s", "cap": "60s"}},
        "timeout": "12.5s",
        "ttl": "86400s",
        "key_ttl": "0s",
        "tags": ["a", "b c"],
        "headers": {"traceparent": "00-1"},
    }

    answer = await client.post("/tasks", json=said)
    task = (await client.get("/tasks:find", params={"queue": "q/ü :*", "key": "k\n1"})).json()

    shown = {name: task["task"].get(name) for name in said}
    assert answer.status_code == 201, answer.text
    assert shown == said | {
        "run_after": "2031-02-03T02:05:06.789012Z",
        # These two are not told.
        "ttl": None,
        "key_ttl": None,
    }


NOT_EQUAL = [
    ('{"a": 1, "a": 2}', "$"),
    ('{"a": "\\u0000"}', "$.a"),
    ("[]", "$"),
    ("null", "$"),
    ('{"a": ' + "1" * 1001 + "}", "$"),
    ('{"a": 1e999}', "$"),
    ('{"a": ' + "[" * 80 + "]" * 80 + "}", "$"),
]


async def test_a_payload_that_could_not_come_back_equal_is_refused(
    client: httpx.AsyncClient,
) -> None:
    for payload, field in NOT_EQUAL:
        answer = await client.post(
            "/tasks",
            content=f'{{"type": "t", "payload": {payload}}}',
            headers={"content-type": "application/json"},
        )

        assert answer.status_code == 400, answer.text
        assert answer.json()["reason"] == "INVALID_PAYLOAD"
        assert answer.json()["field"].startswith(field)


async def test_a_bad_task_spoils_no_other_of_its_batch(client: httpx.AsyncClient) -> None:
    tasks = [
        '{"type": "a"}',
        '{"type": ""}',
        '{"type": "b", "payload": {"x": 1, "x": 2}}',
        '{"type": "c", "retry": {}}',
        '{"type": "d", "nope": 1}',
        "7",
        '{"type": "e", "payload": {"x": 1}}',
    ]

    answer = await client.post(
        "/tasks:batch",
        content=f'{{"tasks": [{",".join(tasks)}]}}',
        headers={"content-type": "application/json"},
    )

    results = answer.json()["results"]
    assert ["task" in result for result in results] == [True, *[False] * 5, True]
    fields = [result["problem"].get("field") for result in results[1:6]]
    assert fields == ["type", "$", "retry", "nope", None]
    assert results[1]["problem"]["message"].startswith("type=…: does not have the right form.")


async def test_with_all_or_nothing_one_bad_task_refuses_the_batch(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post(
        "/tasks:batch", json={"tasks": [{"type": "a"}, {"type": ""}], "all_or_nothing": True}
    )

    assert answer.status_code == 400
    assert answer.json()["index"] == 1
    assert (await client.get("/tasks")).json()["tasks"] == []
