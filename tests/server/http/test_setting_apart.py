"""An item of a batch that is no JSON spoils no other, and is told by its place."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import pytest

from wherry.server.http.lease_bodies import ReportRequest
from wherry.server.http.setting_apart import set_apart
from wherry.server.http.task_bodies import EnqueueBatchRequest

JSON = {"content-type": "application/json"}
GOOD = '{"type": "t", "payload": {"a": "\\ud83d\\ude00 NaN \\\\", "b": [-0.5e+3, true, {}]}}'
NO_JSON = [
    "NaN",
    "-Infinity",
    "Infinity",
    "undefined",
    "None",
    "01",
    ".5",
    "+1",
    "0x10",
    "tru",
    "'a'",
    '"\\ud800"',
    '"\\ude00 \\ud83d"',
    '"\\q"',
    '"two\nlines"',
    "{NaN: 1}",
    '{"\\ud800": [NaN, Infinity]}',
]


def of(word: str) -> str:
    return f'{{"type": "t", "payload": {{"n": {word}}}}}'


@pytest.mark.parametrize("word", NO_JSON)
async def test_an_item_that_is_no_json_has_its_problem_in_its_place(
    client: httpx.AsyncClient, word: str
) -> None:
    body = f'{{"tasks": [{GOOD}, {of(word)}, {GOOD}]}}'

    answer = await client.post("/tasks:batch", content=body, headers=JSON)

    assert answer.status_code == 200, answer.text
    first, second, third = answer.json()["results"]
    assert "JSON is malformed" in second["problem"]["message"]
    ids = [first["task"]["id"], third["task"]["id"]]
    for id in ids:
        task = (await client.get(f"/tasks/{id}")).json()["task"]
        assert task["payload"] == json.loads(GOOD)["payload"]


async def test_a_word_that_others_take_for_json_is_named(client: httpx.AsyncClient) -> None:
    in_batch = await client.post(
        "/tasks:batch", content=f'{{"tasks": [{of("-Infinity")}]}}', headers=JSON
    )
    alone = await client.post("/tasks", content=of("NaN"), headers=JSON)

    [result] = in_batch.json()["results"]
    assert "-Infinity at byte 31" in result["problem"]["message"]
    assert (alone.status_code, alone.json()["reason"]) == (400, "INVALID_REQUEST")
    assert "NaN at byte 31" in alone.json()["detail"]


async def test_a_secret_in_the_place_of_a_word_is_not_told(client: httpx.AsyncClient) -> None:
    body = f'{{"tasks": [{of("hunter2")}, {of("NaNhunter2")}]}}'

    answer = await client.post("/tasks:batch", content=body, headers=JSON)

    assert [sorted(each) for each in answer.json()["results"]] == [["problem"], ["problem"]]
    assert "hunter2" not in answer.text


async def test_all_or_nothing_is_refused_with_the_index(client: httpx.AsyncClient) -> None:
    body = f'{{"tasks": [{GOOD}, {GOOD}, {of("NaN")}], "all_or_nothing": true}}'

    answer = await client.post("/tasks:batch", content=body, headers=JSON)

    assert (answer.status_code, answer.json()["index"]) == (400, 2)
    assert (await client.get("/tasks")).json()["tasks"] == []


async def test_an_outcome_that_is_no_json_spoils_no_other(client: httpx.AsyncClient) -> None:
    await client.post("/tasks", json={"type": "t"})
    [held] = (await client.post("/leases", json={"worker_id": "w", "wait": "5s"})).json()["tasks"]
    lease = json.dumps(held["lease"])
    body = (
        f'{{"outcomes": [{{"lease": {lease}, "complete": {{"result": NaN}}}},'
        f' {{"lease": {lease}, "complete": {{"result": 1}}}}]}}'
    )

    answer = await client.post("/leases:report", content=body, headers=JSON)

    bad, good = answer.json()["answers"]
    assert (bad["answer"], good["answer"]) == ("invalid", "done")
    assert "NaN" in bad["problem"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        f'{{"tasks": [{GOOD}], "notify": NaN}}',
        f'{{"tasks": [{GOOD}], NaN: 1}}',
        f'{{"tasks": [{of("NaN")}], "notify": Infinity}}',
        f'{{"tasks": [{of("NaN")}, {GOOD}',
        f'{{"tasks": [{of("NaN NaN")}]}}',
        f'{{"tasks": [{of("NaN")}], "tasks": [{GOOD}]}}',
        f'{{"tasks": [{of("NaN")}], "notify": true, "notify": false}}',
        '{"tasks": NaN}',
        '{"tasks": [NaN], "more": 1}',
        "NaN",
    ],
)
async def test_a_body_of_which_more_is_wrong_is_refused(
    client: httpx.AsyncClient, body: str
) -> None:
    answer = await client.post("/tasks:batch", content=body, headers=JSON)

    assert (answer.status_code, answer.json()["reason"]) == (400, "INVALID_REQUEST")
    assert (await client.get("/tasks")).json()["tasks"] == []


async def test_a_large_body_is_set_apart_too(client: httpx.AsyncClient) -> None:
    large = json.dumps({"type": "t", "payload": {"a": "é" * 200_000}})
    body = f'{{"tasks": [{large}, {of("NaN")}]}}'

    answer = await client.post("/tasks:batch", content=body, headers=JSON)

    assert [sorted(each) for each in answer.json()["results"]] == [["task"], ["problem"]]


@pytest.mark.parametrize("seed", range(20))
def test_items_get_their_very_words_back(seed: int) -> None:
    chosen = random.Random(seed)
    pieces = [GOOD, "1", '"a b"', "[]", *(of(word) for word in NO_JSON), *NO_JSON]
    items = [chosen.choice(pieces) for _ in range(chosen.randrange(1, 30))]
    body: dict[Any, str] = {
        EnqueueBatchRequest: f'{{"tasks" : [{" , ".join(items)}], "notify": true}}',
        ReportRequest: f'{{"outcomes":[{",".join(items)}]}}',
    }

    found = [set_apart(text.encode(), kind) for kind, text in body.items()]

    assert all(found)
    (batch, _), (report, _) = (each for each in found if each)
    assert [bytes(raw).decode() for raw in batch.tasks] == items
    assert [bytes(raw).decode() for raw in report.outcomes] == items
