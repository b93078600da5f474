"""Payloads are changed over HTTP as their tasks are put back."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.pg.support import Session
from tests.server.http.test_operators import post, stored
from wherry.commands.tasks import MERGED_AT_ONCE

JSON = {"content-type": "application/json"}


async def canceled(client: httpx.AsyncClient, *payloads: Any) -> list[str]:
    ids = [
        (await post(client, "/tasks", type="a", queue="q", payload=payload))["id"]
        for payload in payloads
    ]
    for id in ids:
        await post(client, f"/tasks/{id}:cancel")
    return ids


async def test_all_that_a_filter_finds_is_changed(
    client: httpx.AsyncClient, session: Session
) -> None:
    one, two = await canceled(client, {"n": 1}, {"n": 2})
    session.rows("update wherry.finished set payload = '[1]' where id = %s", int(two))
    said = '"selection":{"filter":{"queue":"q"}},"merge_payload":{"big":9007199254740993,"n":null}'

    counted = await client.post(
        "/tasks:requeue", content=f'{{"dry_run":true,{said}}}', headers=JSON
    )
    answer = await client.post("/tasks:requeue", content=f"{{{said}}}", headers=JSON)

    assert counted.json() == {"matched": 2, "tasks": []}
    assert answer.json()["tasks"] == [
        {"id": two, "answer": "no_object"},
        {"id": one, "answer": "queued"},
    ]
    assert '{"big":9007199254740993}' in (await client.get(f"/tasks/{one}")).text


@pytest.mark.parametrize("wrong", ["[]", "null", '{"a":1,"a":2}', '{"a":1e400}'])
async def test_what_is_no_patch_is_refused(
    client: httpx.AsyncClient, session: Session, wrong: str
) -> None:
    [id] = await canceled(client, {})

    answer = await client.post(
        "/tasks:requeue",
        content=f'{{"selection":{{"ids":["{id}"]}},"merge_payload":{wrong}}}',
        headers=JSON,
    )

    assert answer.status_code == 400
    assert "merge_payload" in answer.text
    assert "NoneType" not in answer.text
    assert session.value("select count(*) from wherry.live") == 0


async def test_one_call_changes_as_many_as_one_transaction_may_hold(
    client: httpx.AsyncClient, session: Session
) -> None:
    ids = await stored(client, MERGED_AT_ONCE + 1, queue="q")
    await post(client, "/tasks:cancel", selection={"ids": ids})
    matching = {"filter": {"queue": "q"}}
    too_many = [
        (429, {"ids": ids}),
        (400, {**matching, "page_size": MERGED_AT_ONCE + 1}),
    ]

    for status, selection in too_many:
        body = {"selection": selection, "merge_payload": {"n": 1}}
        refused = await client.post("/tasks:requeue", json=body)
        assert refused.status_code == status, refused.text
        assert f"{MERGED_AT_ONCE}" in refused.text
        assert "merge_payload" in refused.text
    left = session.value("select count(*) from wherry.live")
    page = await post(client, "/tasks:requeue", selection=matching, merge_payload={"n": 1})

    assert (left, page["matched"]) == (0, MERGED_AT_ONCE)
    assert page["next_page_token"]


@pytest.mark.parametrize(
    "half",
    [
        '{"a":"\\ud800"}',
        '{"a":"\\udc00\\ud800"}',
        '{"a":"\\\\\\ud83d\\ude00\\uDBFF\\u0041", "b": 1}',
    ],
)
async def test_half_of_a_surrogate_pair_is_called_so(client: httpx.AsyncClient, half: str) -> None:
    answer = await client.post(
        "/tasks", content=f'{{"type": "a", "payload": {half}}}', headers=JSON
    )

    assert answer.status_code == 400
    assert "is half of a pair" in answer.json()["detail"]


async def test_what_is_cut_off_is_called_so(client: httpx.AsyncClient) -> None:
    whole = '{"type": "a", "payload": {"a": "\\ud83d\\ude00 \\\\ud800 \\n"}}'

    cut = await client.post("/tasks", content=whole[:-2], headers=JSON)
    whole_one = await client.post("/tasks", content=whole, headers=JSON)

    assert (cut.status_code, whole_one.status_code) == (400, 201)
    assert "truncated" in cut.json()["detail"]
