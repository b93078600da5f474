"""Leases commit without waiting for the disk: after a crash a token can come again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg

import wherry
from tests.facts import await_for
from tests.worker.support import at_work, finished
from wherry.domain.state import State


async def test_a_worker_can_hold_the_same_token_twice_under_two_leases(
    app: wherry.App, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """L1: the lease id tells them apart; only the lease that the database knows is completed."""
    let_go = asyncio.Event()
    began: list[str] = []

    @app.task(name="waits")
    async def waits() -> None:
        began.append(wherry.current().lease.lease_id)
        await let_go.wait()

    async with at_work(app, concurrency=2) as work:
        id_ = (await app.aenqueue("waits")).id
        await await_for(lambda: len(began) == 1)
        # What the database looks like after it lost the commit of that lease.
        connect().execute("truncate wherry.lease")
        connect().execute(
            "update wherry.live set state = 'ready', token = 0, attempts = 0, lease_id = null"
        )
        await await_for(lambda: len(began) == 2)
        let_go.set()
        task = await finished(app, id_)

        assert not work.done()
        assert (task.state, task.token, task.attempts) == (State.SUCCEEDED, 1, 1)
        assert began[0] != began[1]
