"""The desk and queues whose rate is limited: it looks again when their next task may start."""

from __future__ import annotations

import asyncio
import gc
import weakref
from datetime import timedelta

import pytest

import wherry
from tests.facts import await_for
from tests.statements import count_statements
from wherry.domain.lease import Lease
from wherry.server.caller import ANYBODY
from wherry.server.running import Running, running_service

pytestmark = pytest.mark.usefixtures("told_only")


async def test_nobody_waits_for_a_start_once_the_server_has_ended(app: wherry.App) -> None:
    """A rate may be a day's: until then the loop would hold all that a server is made of."""
    await app.aset_queue_limits("default", rate=1, per=timedelta(days=1), burst=1)
    for _ in range(2):
        await app.aenqueue("t")
    async with running_service(app) as running:
        found = weakref.ref(running.desk)
        [_begun] = (await running.service.lease(ANYBODY, worker="w")).leases
        assert (await running.service.lease(ANYBODY, worker="w")).leases == []
    del running

    def is_gone() -> bool:
        gc.collect()
        return found() is None

    await await_for(is_gone, what="the desk is gone")


async def test_a_rate_that_is_raised_holds_for_whoever_waits_by_the_old_one(
    running: Running, app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = count_statements(monkeypatch)

    async def lease() -> list[Lease]:
        return (await running.service.lease(ANYBODY, worker="w", wait=30)).leases

    await app.aset_queue_limits("default", rate=1, per=timedelta(days=1), burst=1)
    first, second = [await app.aenqueue("t") for _ in range(2)]
    [begun] = await lease()
    sent.clear()
    waiting = asyncio.create_task(lease())
    await await_for(lambda: sent.count("queues/list_starts"), what="it waits for tomorrow")

    await app.aset_queue_limits("default", rate=10, per=1, burst=1)

    [next_one] = await waiting
    assert [begun.id, next_one.id] == [first.id, second.id]
