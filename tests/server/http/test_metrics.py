"""`/metrics` of a server: what it tells, how seldom it asks, and that it tells whatever happens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import psycopg
import pytest

import wherry
from tests.server.auth.support import create
from tests.telemetry.scraping import Scraped
from tests.worker.support import until
from wherry.config import ServerSettings
from wherry.domain.flow import COUNTED
from wherry.domain.token import Right
from wherry.server.http.metrics import Metrics
from wherry.server.run import Server
from wherry.telemetry.families import FLEET, PROCESS, SERVER, Family
from wherry.telemetry.readings import Reading

Connect = Callable[..., psycopg.Connection[Any]]


@asynccontextmanager
async def asked(app: wherry.App, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the App's database, and give a client."""
    here = ServerSettings(grpc_address=None, http_address="127.0.0.1:0", **settings)
    async with (
        Server(app, here) as server,
        httpx.AsyncClient(
            base_url=server.bound.http_url or "", timeout=10, trust_env=False
        ) as client,
    ):
        yield client


async def numbers(client: httpx.AsyncClient, **headers: str) -> Scraped:
    answer = await client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    return Scraped(answer.text)


def summed_up(sql: psycopg.Connection[Any], queue: str, type: str) -> None:
    """Store one of each that is counted, as if they had been summed up."""
    sql.execute(
        "with made as (insert into wherry.pair (queue, type) values (%s, %s) returning id)"
        " insert into wherry.tally (step, at, pair, kind, bucket, n, seconds)"
        " select 'ever', '-infinity', made.id, kind, case when kind in ('wait', 'run') then 3"
        " else -1 end, 1, 0.5 from made, unnest(%s::text[]) as kind",
        (queue, type, [*COUNTED, "wait", "run"]),
    )
    # Nothing that happens besides is summed up meanwhile.
    sql.execute(
        "update wherry.chore set done_at = wherry.now(), due_at = wherry.now() + interval '1 hour'"
        " where name = 'roll'"
    )


def names(families: tuple[Family, ...]) -> set[str]:
    return {family.name for family in families}


async def test_a_server_tells_all_that_the_reference_promises(
    app: wherry.App, connect: Connect
) -> None:
    summed_up(connect(), "mail", "send")
    await app.aenqueue("send", queue="mail")
    await app.aadd_schedule("nightly", "0 3 * * *", "send")
    await app.aset_queue_limits("mail", max_running=3, rate=30, per=60)
    async with asked(app) as client:
        posted = await client.post(
            "/api/v1/leases",
            json={"worker_id": "w", "queues": ["mail"], "max_tasks": 1},
        )
        told = await numbers(client)

    assert posted.status_code == 200, posted.text
    assert set(told.families) == names((*FLEET, *PROCESS, *SERVER)) - {
        # Nobody was refused by the database.
        "wherry_command_errors_total"
    }
    assert told.of("wherry_tasks_enqueued_total", queue="mail", type="send") == 1
    assert told.of("wherry_leases_lost_total", queue="mail", type="send") == 1
    assert told.of("wherry_task_wait_seconds_count", queue="mail", type="send") == 1
    assert told.of("wherry_task_run_seconds_bucket", queue="mail", le="0.01") == 1
    assert told.of("wherry_task_run_seconds_bucket", queue="mail", le="0.005") == 0
    assert told.of("wherry_limited_queues") == 1
    assert told.of("wherry_queue_running_limit", queue="mail") == 3
    assert told.of("wherry_queue_starts_per_second_limit", queue="mail") == 0.5
    assert told.of("wherry_database_up") == 1
    assert told.of("wherry_command_seconds_count", command="lease_for_pollers") >= 1
    assert "process_resident_memory_bytes" in told.text


async def test_dead_rows_and_the_oldest_snapshot_are_told(
    app: wherry.App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCL-01: who forgets a transaction keeps every dead row of the database."""

    def dead_in(told: Scraped) -> float:
        return told.of("wherry_table_rows", table="settings", kind="dead")

    monkeypatch.setattr("wherry.server.metrics._KEPT_SECONDS", 0.0)
    sql, forgotten = connect(), connect()
    async with asked(app) as client:
        before = await numbers(client)
        forgotten.autocommit = False
        forgotten.execute("set transaction isolation level repeatable read")
        forgotten.execute("select pg_sleep(0.01)")
        for _ in range(30):
            sql.execute("select pg_current_xact_id()")
        sql.execute("update wherry.settings set channel = channel")

        async def told() -> Scraped | None:
            # Before PostgreSQL 15 a session that is idle keeps for itself what it has counted.
            sql.execute("select")
            found = await numbers(client)
            return found if dead_in(found) > dead_in(before) else None

        held = await until(told, what="the dead row is counted")

    assert held.of("wherry_oldest_snapshot_transactions") >= 30
    assert held.of("wherry_oldest_snapshot_seconds") > 0
    assert held.of("wherry_sessions_hidden") == 0


async def test_however_often_it_is_asked_the_database_is_asked_once(
    app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine takes longer for all of this than answers are kept.
    monkeypatch.setattr("wherry.server.metrics._KEPT_SECONDS", 600.0)
    async with asked(app) as client:
        for _ in range(3):
            await asyncio.gather(*(numbers(client) for _ in range(10)))
        told = await numbers(client)

    assert told.of("wherry_command_seconds_count", command="read_totals") == 1
    assert told.of("wherry_command_seconds_count", command="count_states") == 1


async def test_while_the_database_is_away_metrics_are_served_and_enqueues_say_so(
    app: wherry.App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCL-08: a database that takes no connection any more, as one that is full of them."""
    monkeypatch.setattr("wherry.server.metrics._KEPT_SECONDS", 0.0)
    name = connect().info.dbname
    owner = psycopg.connect(app.dsn, dbname="postgres", autocommit=True)
    app = wherry.App(app.dsn, pool_timeout=0.5)

    def let_in(yes: bool) -> None:
        owner.execute(f"alter database {name} allow_connections {yes}".encode())
        if not yes:
            owner.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
                (name,),
            )

    async def is_up(client: httpx.AsyncClient, up: float) -> bool:
        return (await numbers(client)).of("wherry_database_up") == up

    with owner:
        async with app, asked(app) as client:
            await until(lambda: is_up(client, 1), what="the database is up")
            let_in(False)
            try:
                await until(lambda: is_up(client, 0), what="the database is away")
                during = await numbers(client)
                refused = await client.post("/api/v1/tasks", json={"type": "t"})
            finally:
                let_in(True)
            await until(lambda: is_up(client, 1), what="the database is up")
            stored = await client.post("/api/v1/tasks", json={"type": "t"})

    assert set(during.families) >= names(SERVER) | {"wherry_command_seconds", "wherry_database_up"}
    assert set(during.families) & names(FLEET) == {"wherry_database_up"}
    assert during.of("wherry_command_errors_total") > 0
    assert (refused.status_code, refused.json()["reason"]) == (503, "DATABASE_UNAVAILABLE")
    assert "retry-after" in refused.headers
    assert stored.status_code == 201, stored.text


@pytest.mark.parametrize(
    ("right", "queue", "status"),
    [
        (Right.READ, "*", 200),
        (Right.READ, "mail", 403),
        (Right.ENQUEUE, "*", 403),
        (None, "*", 401),
    ],
)
async def test_metrics_are_for_who_may_look_at_all_queues(
    app: wherry.App, right: Right | None, queue: str, status: int
) -> None:
    headers = {}
    if right is not None:
        token = await create(app, rights=(right,), queues=(queue,))
        headers = {"authorization": f"Bearer {token.reveal()}"}

    async with asked(app, auth=True) as client:
        answer = await client.get("/metrics", headers=headers)

    assert answer.status_code == status
    assert ("wherry_database_up" in answer.text) == (status == 200)


async def test_the_form_is_that_which_is_asked_for(app: wherry.App) -> None:
    async with asked(app) as client:
        openly = await client.get(
            "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
        )
        head = await client.head("/metrics")
        posted = await client.post("/metrics")

    assert openly.headers["content-type"].startswith("application/openmetrics-text")
    assert openly.text.endswith("# EOF\n")
    assert (head.status_code, posted.status_code) == (200, 405)


async def test_of_many_who_ask_at_once_one_is_written_for_at_a_time(
    app: wherry.App,
) -> None:
    meets = threading.Barrier(2)
    met: list[bool] = []

    class Watched(Metrics):
        def _written(self, accept: str, told: list[Reading]) -> tuple[str, bytes]:
            try:
                meets.wait(0.05)
                met.append(True)
            except threading.BrokenBarrierError:
                meets.reset()
            return super()._written(accept, told)

    metrics = Watched(app, None)

    told = await asyncio.gather(*(metrics.shown("") for _ in range(4)))

    assert len(told) == 4
    assert not met
