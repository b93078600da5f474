"""A server that is gone though its connections live costs a call one silence, and no task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import wherry
from tests.nemesis.wire import Wire
from wherry.commands.audit import Actor, audited
from wherry.commands.base import Command
from wherry.commands.tasks import CancelTasks, EnqueueTasks, GetTask, RequeueTasks
from wherry.config import PoolSettings
from wherry.domain.options import Options
from wherry.transport import bounded, pool, pool_blocking
from wherry.transport.connect import connection_text

SILENCE_SECONDS = 2.0
ONE = Options().spec("t", "{}")


class Silenced(NamedTuple):
    app: wherry.App
    wire: Wire


@pytest.fixture
def silenced(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Silenced]:
    """An App behind a proxy, of whose calls each is answered in a moment or never."""
    for module in (pool, pool_blocking):
        monkeypatch.setattr(module, "BRIEF_ANSWER_SECONDS", SILENCE_SECONDS)
    given = conninfo_to_dict(dsn)
    name = f".s.PGSQL.{given.get('port') or 5432}"
    # Paths of sockets are short.
    with (
        TemporaryDirectory() as folder,
        Wire(Path(folder) / name, Path(str(given["host"])) / name) as wire,
    ):
        # As in the field the deadline is over before the silence is.
        app = wherry.App(make_conninfo(dsn, host=folder), pool_timeout=SILENCE_SECONDS * 0.75)
        yield Silenced(app, wire)
        app.close()


def test_a_blocking_enqueue_on_half_open_connections_is_stored_once_after_one_silence(
    silenced: Silenced, app: wherry.App
) -> None:
    silenced.app.enqueue("t")
    silenced.wire.abandon()

    stored = silenced.app.enqueue("t", key="k")

    assert stored.created
    assert app.count_tasks().tasks == 2


async def test_an_awaited_one_is_too(silenced: Silenced, app: wherry.App) -> None:
    # Of several connections: not each may cost a silence of its own.
    await asyncio.gather(*(silenced.app.aenqueue("t") for _ in range(5)))
    silenced.wire.abandon()

    stored = await silenced.app.aenqueue("t")

    assert stored.created
    assert (await app.acount_tasks()).tasks == 6
    await silenced.app.aclose()


def test_a_call_about_one_task_is_given_up_soon_but_after_the_server_would_have_spoken() -> None:
    text = connection_text("dbname=x", name="n", settings=PoolSettings())

    assert "lock_timeout=10s" in text
    assert "statement_timeout=60s" in text
    assert 10.0 < bounded.BRIEF_ANSWER_SECONDS < 60.0 < bounded.ANSWER_SECONDS


@pytest.mark.parametrize(
    ("command", "brief"),
    [
        (EnqueueTasks((ONE,)), True),
        (EnqueueTasks((ONE, ONE)), False),
        (EnqueueTasks((ONE,)).again(), True),
        (GetTask(1), True),
        (CancelTasks((1,)), True),
        (CancelTasks((1, 2)), False),
        (audited(RequeueTasks((1,)), Actor("me")), True),
    ],
)
def test_what_waits_for_several_locks_is_given_the_time(
    command: Command[object], brief: bool
) -> None:
    assert command.brief is brief
