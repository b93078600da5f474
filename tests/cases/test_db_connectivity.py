"""What made others deaf, or short of connections, after something had been cut or canceled."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for
from tests.worker.support import at_work, finished, set_for_all
from wherry.config import PoolSettings
from wherry.domain.state import State
from wherry.transport import listen
from wherry.transport.patience import Patience

Connect = Callable[..., psycopg.Connection[Any]]
NEVER = timedelta(seconds=600)


async def test_a_listener_that_was_cut_hears_again(app: wherry.App, connect: Connect) -> None:
    """DB-15, LN-01, LN-03, LN-10.

    While it listens it polls every ten minutes, so what starts was heard of.
    """

    @app.task(name="t")
    async def t() -> None:
        pass

    connection = connect()

    def listener() -> int:
        """Return the process of the one session that listens, 0 if there is none."""
        found = connection.execute(
            "select pid from pg_stat_activity where datname = current_database()"
            " and application_name like 'wherry listener%' and state = 'idle'"
            " and query ilike '%listen%'"
        ).fetchall()
        assert len(found) <= 1
        return int(found[0][0]) if found else 0

    async with at_work(app, poll_every=timedelta(seconds=0.1), poll_every_when_listening=NEVER):
        for _ in range(4):
            await await_for(listener)
            pid = listener()
            connection.execute("select pg_terminate_backend(%s)", [pid])
            await await_for(lambda pid=pid: listener() not in (0, pid))  # type: ignore[misc]
            for _ in range(3):
                made = await app.aenqueue("t")
                assert (await finished(app, made.id, seconds=5)).state is State.SUCCEEDED


async def test_a_listener_that_fails_after_it_has_connected_leaves_no_session(
    dsn: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LN-10: a hundred times, in the step that follows; whoever else holds the connection."""
    made: list[psycopg.AsyncConnection[Any]] = []

    async def fails(connection: psycopg.AsyncConnection[Any], *_: object, **__: object) -> None:
        made.append(connection)
        raise psycopg.OperationalError("no channel")

    monkeypatch.setattr(listen, "arun", fails)
    monkeypatch.setattr(Patience, "next_pause", lambda *_, **__: 0.0)
    listener = listen.Listener(
        dsn, schema="wherry", name="wherry deaf", settings=PoolSettings(), heard=lambda _: None
    )

    listening = asyncio.create_task(listener.run())
    await await_for(lambda: len(made) >= 100)
    listening.cancel()
    with suppress(asyncio.CancelledError):
        await listening

    assert [each for each in made if not each.closed] == []
    asked = "select count(*) from pg_stat_activity where application_name like 'wherry deaf%'"
    connection = connect()
    await await_for(lambda: connection.execute(asked.encode()).fetchall() == [(0,)])


async def test_a_worker_that_may_start_on_a_read_only_server_says_so_and_waits(
    app: wherry.App, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """MIG-13, DB-03: a switch of servers is under way, and somebody allowed to start meanwhile."""
    connection = connect(options="-c default_transaction_read_only=off")
    set_for_all(connection, default_transaction_read_only="on")

    @app.task(name="t")
    async def t() -> None:
        pass

    async with at_work(app, poll_every=timedelta(seconds=0.1)):
        await await_for(lambda: "waiting for the database" in caplog.text)
        assert "connected to a read-only server" in caplog.text
        assert "target_session_attrs=read-write" in caplog.text
        set_for_all(connection, default_transaction_read_only="off")
        task = await finished(app, (await app.aenqueue("t")).id)

    assert task.state is State.SUCCEEDED
    assert len(caplog.records) <= 6


async def test_calls_that_write_and_are_canceled_cost_no_connection_and_leave_nothing_open(
    dsn: str, connect: Connect
) -> None:
    """DB-09: enqueues, leases and cancels, at random moments."""
    moments = random.Random(9)
    canceled = 0
    async with wherry.App(dsn, pool_size=3, pool_timeout=10) as app:
        calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
            lambda: app.aenqueue("t", key="k", key_ttl=0),
            lambda: app.aenqueue_many([{"type": "t"}] * 20),
            lambda: app.alease(worker="w", max_tasks=5),
            lambda: app.acancel_many([1, 2, 3]),
        ]
        # However quick the calls are: until enough of them were canceled on their way.
        for n in range(10_000):
            call = asyncio.create_task(calls[n % len(calls)]())
            await asyncio.sleep(moments.random() * 0.002)
            canceled += call.cancel()
            await asyncio.wait([call])
            if canceled == 40:
                break

        async with asyncio.timeout(30):
            await asyncio.gather(*(app.aget_task(1) for _ in range(30)))
        sessions = (
            connect()
            .execute(
                "select state from pg_stat_activity"
                " where datname = current_database() and application_name like 'wherry app%'"
            )
            .fetchall()
        )

    assert canceled == 40
    assert 1 <= len(sessions) <= 3
    assert set(sessions) == {("idle",)}
