"""The limits of a queue are seen and set in the dashboard, by those who may."""

from __future__ import annotations

import re

import pytest

import wherry
from tests.server.dashboard.conftest import Browse, send
from wherry.domain.limits import QueueLimits


async def limits_of(app: wherry.App, queue: str) -> QueueLimits | None:
    return next((each.limits for each in await app.alist_queues() if each.queue == queue), None)


async def test_limits_are_set_shown_and_lifted(browse: Browse, app: wherry.App) -> None:
    client = await browse("read", "admin")
    await app.aenqueue("send", queue="mail")

    set_ = await send(
        client, "limits?queue=mail", queue="mail", max_running="3", rate="100", per="60"
    )

    assert set_.status_code == 303
    assert await limits_of(app, "mail") == QueueLimits(3, 100, 60.0, 2)
    for page in ("queues", "queue?name=mail"):
        assert "at most 3 at once; 100 starts in 60 s" in (await client.get(page)).text
    form = (await client.get("limits?queue=mail")).text
    assert re.search(r'name="max_running" value="3"', form)
    assert re.search(r'name="per" value="60"', form)
    assert "Limited a queue" in (await client.get("audit")).text
    await send(client, "limits?queue=mail", queue="mail")
    assert await limits_of(app, "mail") is None


@pytest.mark.parametrize(
    "wrong", [{"max_running": "0"}, {"max_running": "many"}, {"rate": "1", "per": "soon"}]
)
async def test_what_is_no_limit_is_refused(
    browse: Browse, app: wherry.App, wrong: dict[str, str]
) -> None:
    client = await browse()

    found = await send(client, "limits?queue=mail", queue="mail", **wrong)

    assert found.status_code == 400
    assert next(iter(wrong)) in found.text or "per" in found.text
    assert await limits_of(app, "mail") is None


async def test_who_only_reads_sets_none(browse: Browse, app: wherry.App) -> None:
    client = await browse("read")
    await app.aenqueue("send", queue="mail")

    assert (await client.get("limits?queue=mail")).status_code == 403
    assert (await send(client, "queues", at="limits", queue="mail")).status_code == 403
    assert "limits?queue=mail" not in (await client.get("queue?name=mail")).text
