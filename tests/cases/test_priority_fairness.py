"""Whoever enqueues thousands at once keeps nobody of another queue waiting."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import wherry
from tests.facts import await_for
from tests.worker.support import at_work

FLOOD = 3000
BATCH = 100
# What a worker has leased ahead is two leases at most, and another may be on its way.
AHEAD = 3 * BATCH + 1


@pytest.mark.parametrize("queues", [["mail.a", "mail.b"], ["mail.b", "mail.a"]])
async def test_a_tenant_with_a_queue_of_its_own_is_served_in_turn(
    app: wherry.App, queues: list[str]
) -> None:
    """PRI-08: b's only task comes when all of a's are there and the first of them runs."""
    ran: Counter[str] = Counter()
    enough = asyncio.Event()
    before_b: list[int] = []

    @app.task(name="mail")
    async def mail(tenant: str) -> None:
        ran[tenant] += 1
        if tenant == "b":
            before_b.append(ran["a"])
            enough.set()
        elif ran["a"] == 1:
            await mail.using(queue="mail.b").aenqueue(tenant="b")
            before_b.append(ran["a"])

    flood = {"type": "mail", "queue": "mail.a", "payload": {"tenant": "a"}}
    await app.aenqueue_many([flood] * FLOOD)

    async with at_work(app, queues=queues, concurrency=1, batch_size=BATCH):
        await await_for(enough.is_set, seconds=60)

    came, began = before_b
    assert began - came <= AHEAD < FLOOD / 2
