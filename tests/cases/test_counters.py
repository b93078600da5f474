"""What others exported as counters fell when rows were purged, or began anew with a process."""

from __future__ import annotations

import httpx
import psycopg
import pytest

import wherry
from tests.telemetry.scraping import Scraped
from tests.worker.support import drained, until
from wherry.config import ServerSettings
from wherry.server.run import Server

MANY = 1000


async def told(client: httpx.AsyncClient) -> Scraped:
    answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return Scraped(answer.text)


async def test_what_succeeded_is_counted_for_good_whatever_is_purged_and_started_anew(
    app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OBS-05."""
    monkeypatch.setattr("wherry.server.metrics._KEPT_SECONDS", 0.0)
    here = ServerSettings(grpc_address=None, http_address="127.0.0.1:0")

    @app.task(name="t")
    async def t() -> None: ...

    ids = [each.id for each in await app.aenqueue_many([{"type": "t"}] * MANY)]
    await drained(app)

    for state in (MANY, 0):
        # The second server is another process, as far as its counters know.
        async with (
            Server(app, here) as server,
            httpx.AsyncClient(base_url=server.bound.http_url or "", trust_env=False) as client,
        ):

            async def fact(client: httpx.AsyncClient = client, state: int = state) -> bool:
                now = await told(client)
                kept = now.of("wherry_tasks", type="t", state="succeeded")
                return now.of("wherry_tasks_succeeded_total", type="t") == MANY and kept == state

            await until(fact, what=f"{MANY} have succeeded, and {state} of them are kept")
            await app.apurge_many(ids)
            now = await told(client)
            assert now.of("wherry_tasks_enqueued_total", type="t") == MANY
            assert now.of("wherry_task_run_seconds_count", type="t") == MANY


async def test_what_was_rolled_back_is_not_counted(
    app: wherry.App, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wherry.server.metrics._KEPT_SECONDS", 0.0)
    here = ServerSettings(grpc_address=None, http_address="127.0.0.1:0")
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await app.aenqueue("gone", tx=connection)
        await connection.rollback()
        await app.aenqueue("kept", tx=connection)

    async with (
        Server(app, here) as server,
        httpx.AsyncClient(base_url=server.bound.http_url or "", trust_env=False) as client,
    ):

        async def fact() -> bool:
            return (await told(client)).of("wherry_tasks_enqueued_total", type="kept") == 1

        await until(fact, what="the one is counted")

        assert (await told(client)).of("wherry_tasks_enqueued_total") == 1
