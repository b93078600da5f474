"""What made others deaf without their knowing, or ended their listening for good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import wherry
from tests.facts import await_for
from tests.fuzz.hostile import TEXTS
from tests.nemesis.wire import Wire
from tests.worker.support import at_work, finished
from wherry.config import PoolSettings
from wherry.domain.state import State
from wherry.transport.listen import Listener

Connect = Callable[..., psycopg.Connection[Any]]
NEVER = timedelta(seconds=600)


async def test_a_connection_that_is_dead_and_open_is_found_out_and_replaced(
    dsn: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LN-02: nothing comes through any more, and nobody hangs up."""
    monkeypatch.setattr("wherry.transport.listen._PROVE_EVERY", 0.1)
    monkeypatch.setattr("wherry.transport.listen._PROVE_WITHIN", 0.5)
    given = conninfo_to_dict(dsn)
    name = f".s.PGSQL.{given.get('port') or 5432}"
    connection = connect()
    [[channel]] = connection.execute("select channel from wherry.settings").fetchall()
    heard: list[str] = []
    # Paths of sockets are short.
    with (
        TemporaryDirectory() as folder,
        Wire(Path(folder) / name, Path(str(given["host"])) / name) as wire,
    ):
        listener = Listener(
            make_conninfo(dsn, host=folder),
            schema="wherry",
            name="listener",
            settings=PoolSettings(),
            heard=heard.append,
        )
        listening = asyncio.create_task(listener.run())
        await await_for(lambda: listener.alive)

        wire.abandon()
        await await_for(lambda: not listener.alive)
        assert listener.deaf_seconds() is not None

        await await_for(lambda: listener.alive)
        assert listener.deaf_seconds() is None
        assert heard == ["", ""]
        connection.execute("select pg_notify(%s, 'mail')", [channel])
        await await_for(lambda: heard[2:] == ["mail"])
        listening.cancel()
        await asyncio.wait([listening])


async def test_notifications_that_mean_nothing_end_no_listening(
    app: wherry.App, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """LN-06: anybody may notify; a look that finds nothing is all that comes of it."""

    @app.task(name="t")
    async def t() -> None:
        pass

    connection = connect()
    [[channel]] = connection.execute("select channel from wherry.settings").fetchall()
    sent = [text for text in TEXTS if len(text.encode()) < 8000]
    async with at_work(app, poll_every=NEVER, poll_every_when_listening=NEVER):
        await await_for(lambda: _waits(connection))
        for text in [*sent, "x" * 7999]:
            connection.execute("select pg_notify(%s, %s)", [channel, text])
        made = await app.aenqueue("t")
        task = await finished(app, made.id, seconds=10)

    assert task.state is State.SUCCEEDED
    assert len(sent) >= 80
    assert "not listening" not in caplog.text


def _waits(connection: psycopg.Connection[Any]) -> bool:
    [[there]] = connection.execute("select exists (select from wherry.waiting)").fetchall()
    return bool(there)
