"""Handlers share the App's pool; the worker's own loops do not, and nobody waits in it for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

import wherry
from tests.facts import await_for
from tests.worker.support import all_finished, at_work, drained, finished, get
from wherry.domain.state import State
from wherry.errors import PoolExhausted
from wherry.transport.pool import PoolTransport

Connect = Callable[..., psycopg.Connection[Any]]


async def test_canceled_calls_cost_the_pool_no_connection(dsn: str) -> None:
    """DB-09: at any moment of a call, hundreds of times."""
    async with wherry.App(dsn, pool_size=3, pool_timeout=10) as app:
        made = await app.aenqueue("t")
        canceled = 0
        for _ in range(150):
            call = asyncio.create_task(app.aget_task(made.id))
            await asyncio.sleep(random.random() * 0.003)
            canceled += call.cancel()
            await asyncio.wait([call])
        transport = app._pools[asyncio.get_running_loop()]
        assert isinstance(transport, PoolTransport)
        # All three are there, at once: each has to be had while the others are held.
        async with AsyncExitStack() as held:
            for _ in range(3):
                await held.enter_async_context(transport._pool.connection(timeout=10))
        stats = transport._pool.get_stats()

    assert canceled > 10
    assert stats["pool_size"] <= 3
    assert stats.get("requests_waiting", 0) == 0


async def test_the_first_calls_of_a_loop_may_all_come_at_once(dsn: str) -> None:
    async with wherry.App(dsn, pool_size=2) as app:
        made = await asyncio.gather(*(app.aenqueue("t") for _ in range(20)))

    assert len({each.id for each in made}) == 20


async def test_a_clogged_pool_keeps_no_heartbeat_and_names_what_to_change(
    dsn: str, connect: Connect
) -> None:
    """DB-12: a pool of two, twenty handlers that want it, and a database that is slow for them."""
    app = wherry.App(dsn, pool_size=2, pool_timeout=0.5)
    locker = connect(autocommit=False)
    failed: list[str] = []

    @app.task(name="uses the app", max_attempts=1)
    async def uses_the_app(n: int) -> None:
        try:
            # Two hold a connection and wait for the lock, the others wait for a connection.
            await app.aenqueue("nobody knows this", key="the same", queue="elsewhere")
        except PoolExhausted as error:
            failed.append(str(error))
            raise
        finally:
            await asyncio.sleep(3)

    ids = [each.id for each in await uses_the_app.aenqueue_many([{"n": n} for n in range(20)])]
    app.enqueue("nobody knows this", key="the same", queue="elsewhere", tx=locker)
    async with at_work(app, concurrency=20, lease_for=2):
        await await_for(lambda: len(failed) == 18)
        locker.rollback()
        tasks = await all_finished(app, ids)
    await app.aclose()

    assert sorted({task.state for task in tasks}) == [State.DEAD, State.SUCCEEDED]
    assert {attempt.outcome for task in tasks for attempt in task.history} == {"failed"}
    assert "all 2 of the pool are in use" in failed[0]
    assert "App(pool_size=...)" in failed[0]


async def test_handlers_that_hold_a_connection_of_their_own_pool_may_enqueue(
    app: wherry.App, dsn: str
) -> None:
    """DB-16: the App's pool is another one, so nobody waits for himself."""
    async with AsyncConnectionPool(dsn, min_size=0, max_size=3, open=False, timeout=20) as pool:

        @app.task(name="nested", max_attempts=1)
        async def nested(n: int) -> None:
            async with pool.connection() as connection:
                await connection.execute("select 1")
                await app.aenqueue("nobody knows this", {"n": n})

        ids = [each.id for each in await nested.aenqueue_many([{"n": n} for n in range(30)])]
        await drained(app, concurrency=10)
        tasks = [await get(app, id_) for id_ in ids]

    assert {task.state for task in tasks} == {State.SUCCEEDED}


async def test_handlers_that_take_connections_of_the_apps_pool_by_threads_have_their_own(
    app: wherry.App,
) -> None:
    """Plain handlers use the blocking pool: as many as it has, and then they wait their turn."""

    @app.task(name="plain", max_attempts=1)
    def plain() -> None:
        app.enqueue("nobody knows this")

    ids = [(await app.aenqueue("plain")).id for _ in range(30)]
    async with at_work(app, concurrency=15):
        tasks = [await finished(app, id_) for id_ in ids]

    assert {task.state for task in tasks} == {State.SUCCEEDED}


async def test_a_migration_that_hangs_does_not_keep_workers_from_starting(
    app: wherry.App, connect: Connect
) -> None:
    """DB-08: they only look whether the schema fits; who migrates gives up after a while."""

    @app.task(name="t")
    async def t() -> None:
        pass

    holder = connect(autocommit=False)
    holder.execute("lock table wherry.migration in exclusive mode")
    id_ = (await app.aenqueue("t")).id

    async with asyncio.timeout(30):
        await drained(app)

    holder.rollback()
    assert (await get(app, id_)).state is State.SUCCEEDED


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_server_that_never_answers_is_given_up(
    dsn: str, monkeypatch: pytest.MonkeyPatch, connect: Connect, blocking: bool
) -> None:
    """Not frozen here, but kept from answering by a lock that no timeout of the server's ends."""
    for pool in ("pool", "pool_blocking"):
        monkeypatch.setattr(f"wherry.transport.{pool}.BRIEF_ANSWER_SECONDS", 0.3)
    app = wherry.App(f"{dsn}&options=-c%20lock_timeout%3D0", pool_timeout=0.5)
    made = await app.aenqueue("t")
    locker = connect(autocommit=False)
    locker.execute("lock table wherry.live in access exclusive mode")

    asked = asyncio.to_thread(app.get_task, made.id) if blocking else app.aget_task(made.id)
    with pytest.raises(wherry.errors.Unavailable, match="no answer from the server"):
        await asyncio.wait_for(asked, 30)
    locker.rollback()
    assert await app.aget_task(made.id) is not None
    await app.aclose()
