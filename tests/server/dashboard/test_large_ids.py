"""Numbers beyond what a script or 32 bits can hold are shown and taken as they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import psycopg
import pytest

import wherry
from tests.server.dashboard.conftest import Browse, send


@pytest.mark.parametrize("id", [2_147_483_650, 9_007_199_254_740_993])
async def test_a_large_id_is_shown_and_acted_on(
    browse: Browse, app: wherry.App, connect: Callable[..., psycopg.Connection[Any]], id: int
) -> None:
    """SCL-02."""
    connect().execute("select setval('wherry.task_id', %s, false)", [id])
    stored = await app.aenqueue("send", {"n": id}, queue="mail")
    assert stored.id == id
    client = await browse()

    listed = await client.get("tasks?queue=mail")
    shown = await client.get(f"task?id={id}")
    canceled = await send(client, f"task-cancel?id={id}", id=str(id))

    assert f"task?id={id}" in listed.text
    assert f'"n": {id}' in unescape(re.sub(r"<[^>]+>", "", shown.text))
    assert canceled.status_code == 303
    task = await app.aget_task(id)
    assert task is not None
    assert task.state == "canceled"
