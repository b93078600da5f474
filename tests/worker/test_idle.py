"""A worker that has nothing to do asks about once a second, and less while it listens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import wherry
from tests.worker.support import at_work, finished

SECONDS = 8.0


@pytest.fixture
def statistics(dsn: str) -> Iterator[Any]:
    """Return how many transactions the test's database has seen, asked from outside of it."""
    name = conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(make_conninfo(dsn, dbname="template1"), autocommit=True) as outside:

        def count() -> int:
            [[transactions]] = outside.execute(
                "select xact_commit + xact_rollback from pg_stat_database where datname = %s",
                [name],
            ).fetchall()
            return int(transactions)

        yield count


@pytest.mark.parametrize(("listen", "at_most"), [(True, 1.5), (False, 3.5)])
async def test_an_idle_worker_asks_little(
    app: wherry.App, statistics: Any, listen: bool, at_most: float
) -> None:
    @app.task(name="t")
    async def t() -> None:
        pass

    async with at_work(app, listen=listen):
        await finished(app, (await app.aenqueue("t")).id)
        await app.aclose()
        # The pause before it sleeps is over, and statistics are late by a second.
        await asyncio.sleep(3)
        before = statistics()
        await asyncio.sleep(SECONDS)
        asked = (statistics() - before) / SECONDS

    assert asked <= at_most
