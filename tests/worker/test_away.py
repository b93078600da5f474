"""A database that was away is noticed soon when it is back, however long that has taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import wherry
from tests.facts import await_for
from tests.worker.support import at_work
from wherry.transport.patience import SOON_SECONDS, Patience

# Many more than a pause that doubles needs to come to its longest.
FAILURES = 40


class Way:
    """A way to the test's database that is open or closed: a socket's other name."""

    def __init__(self, dsn: str, folder: Path) -> None:
        given = conninfo_to_dict(dsn)
        name = f".s.PGSQL.{given.get('port') or 5432}"
        self._socket, self._link = Path(str(given["host"])) / name, folder / name
        self.dsn = make_conninfo(dsn, host=str(folder))

    def open(self) -> None:
        self._link.symlink_to(self._socket)

    def close(self) -> None:
        self._link.unlink()


class Pauses:
    """Every pause that anybody of ours asked for; the real one is short."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[float] = []
        self.noticed: Callable[[], object] = lambda: None
        next_pause = Patience.next_pause

        def short(patience: Patience, *, after: float = 0.0) -> float:
            self.asked.append(next_pause(patience, after=after))
            self.noticed()
            return 0.001

        monkeypatch.setattr(Patience, "next_pause", short)


@pytest.fixture
def way(dsn: str, tmp_path: Path) -> Way:
    return Way(dsn, tmp_path)


@pytest.mark.parametrize("blocking", [True, False])
async def test_an_app_looks_for_its_database_every_second_at_least(
    way: Way, monkeypatch: pytest.MonkeyPatch, blocking: bool
) -> None:
    """A pool by itself would look after 1, 3 and 7 s, and then no more in this call's time."""
    pauses = Pauses(monkeypatch)

    def noticed() -> None:
        if len(pauses.asked) == FAILURES:
            way.open()

    pauses.noticed = noticed
    async with wherry.App(way.dsn) as app:
        stored = await (asyncio.to_thread(app.enqueue, "t") if blocking else app.aenqueue("t"))

    assert stored.created
    assert len(pauses.asked) >= FAILURES
    assert max(pauses.asked) <= SOON_SECONDS


async def test_every_loop_of_a_worker_looks_for_its_database_every_second_at_least(
    way: Way, connect: Callable[..., psycopg.Connection[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = Pauses(monkeypatch)
    way.open()
    done: list[int] = []
    async with wherry.App(way.dsn) as app:

        @app.task(name="t")
        async def t(n: int) -> None:
            done.append(n)

        async with at_work(app):
            await t.aenqueue(1)
            await await_for(lambda: done == [1])
            way.close()
            connect().execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            # Three loops at least: leasing, listening and maintenance.
            await await_for(lambda: len(pauses.asked) > 3 * FAILURES)
            way.open()
            await t.aenqueue(2)
            await await_for(lambda: done == [1, 2])

    assert max(pauses.asked) <= SOON_SECONDS
