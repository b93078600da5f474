"""What made others leave tasks behind that nobody ran, when a worker ended under load."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for
from tests.worker.support import at_work

Connect = Callable[..., psycopg.Connection[Any]]
ROUNDS = 25


@pytest.mark.parametrize("listen", [True, False], ids=["listening", "polling"])
async def test_a_worker_that_ends_under_load_holds_nothing_any_more(
    app: wherry.App, connect: Connect, listen: bool
) -> None:
    """SHUT-10: at whatever moment it is stopped, with leases and reports under way."""
    moments = random.Random(10)
    ran: list[int] = []

    @app.task(name="t")
    async def t(n: int) -> None:
        ran.append(n)
        await asyncio.sleep(0.001)

    connection = connect()
    await t.aenqueue_many([{"n": n} for n in range(10_000)])
    for _ in range(ROUNDS):
        before = len(ran)
        async with at_work(app, concurrency=5, listen=listen, poll_every=timedelta(seconds=0.01)):
            await await_for(lambda before=before: len(ran) > before)  # type: ignore[misc]
            await asyncio.sleep(moments.random() * 0.03)

        left = connection.execute(
            "select (select count(*) from wherry.live where state = 'leased'),"
            "       (select count(*) from wherry.lease),"
            "       (select count(*) from wherry.finished where state = 'succeeded')"
        ).fetchall()
        assert left == [(0, 0, len(ran))]

    # Under load until the last round, and nothing ran twice or was counted as failed.
    assert len(ran) < 10_000
    assert len(set(ran)) == len(ran)
    assert connection.execute("select count(*) from wherry.attempt").fetchall() == [(0,)]
    assert connection.execute("select max(attempts) from wherry.live").fetchall() == [(0,)]
