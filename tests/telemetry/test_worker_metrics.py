"""What a worker tells of itself, in the program that runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from prometheus_client import CollectorRegistry, generate_latest

import wherry
from tests.facts import await_for
from tests.telemetry.scraping import Scraped
from tests.worker.support import all_finished, at_work, drained
from wherry.commands.base import Command, name_of
from wherry.commands.flow import ReadTotals
from wherry.commands.queues import PauseQueue
from wherry.commands.tasks import CancelTasks
from wherry.config import ServerSettings
from wherry.domain.retry import Fixed
from wherry.integrations.prometheus import Collector
from wherry.server.run import Server
from wherry.telemetry.families import PROCESS, WORKER

Connect = Callable[..., psycopg.Connection[Any]]
Shown = Callable[[], Scraped]


@pytest.fixture
def shown(app: wherry.App) -> Shown:
    """What Prometheus is told of the App."""
    registry = CollectorRegistry()
    registry.register(Collector(app))
    return lambda: Scraped(generate_latest(registry).decode())


async def test_a_worker_that_works_tells_all_that_the_reference_promises(
    app: wherry.App, shown: Shown
) -> None:
    held = asyncio.Event()

    @app.task(name="waits")
    async def waits() -> None:
        await held.wait()

    id = (await app.aenqueue("waits")).id
    async with at_work(app):
        await await_for(lambda: shown().of("wherry_worker_running") == 1)
        during = shown()
        held.set()
        await all_finished(app, [id])
        await await_for(lambda: shown().of("wherry_worker_leases_held") == 0)
    after = shown()

    assert set(during.families) == {family.name for family in (*PROCESS, *WORKER)} - {
        # None of these has happened yet.
        "wherry_command_errors_total",
        "wherry_worker_outcomes_total",
    }
    assert during.of("wherry_worker_slots") == 4
    assert during.of("wherry_worker_processes") == 1
    assert during.of("wherry_worker_leases_held") == 1
    assert during.of("wherry_command_seconds_count", command="lease_tasks") >= 1
    assert during.of("wherry_command_seconds_count", command="enqueue_tasks") == 1
    assert during.of("wherry_lease_batch_tasks_sum") == 1
    assert during.of("wherry_pool_connections", state="free") == 1
    assert during.of("wherry_pool_connections_most") == 10
    assert after.of("wherry_worker_outcomes_total", outcome="done") == 1
    assert after.of("wherry_report_batch_tasks_count") == 1
    # What is told of now has ended with the worker.
    assert not after.has("wherry_worker_slots")


async def test_counters_go_on_where_the_worker_before_has_ended(
    app: wherry.App, shown: Shown
) -> None:
    @app.task(name="fails", retry=Fixed(0))
    async def fails() -> None:
        raise ValueError("boom")

    for n in (1, 2):
        await app.aenqueue("fails", max_attempts=2)
        await drained(app)

        assert shown().of("wherry_worker_outcomes_total", outcome="requeued") == n
        assert shown().of("wherry_worker_outcomes_total", outcome="dead") == n


async def test_batches_are_counted_as_batches(app: wherry.App, shown: Shown) -> None:
    @app.task(name="t")
    async def t() -> None: ...

    await app.aenqueue_many([{"type": "t"}] * 100)
    await drained(app)

    told = shown()
    assert told.of("wherry_lease_batch_tasks_sum") == 100
    assert told.of("wherry_report_batch_tasks_sum") == 100
    assert 1 <= told.of("wherry_lease_batch_tasks_count") < 100


async def test_what_the_database_refuses_is_counted_as_an_error(
    app: wherry.App, shown: Shown
) -> None:
    elsewhere = wherry.App(app.dsn, schema="elsewhere")
    elsewhere.meters = app.meters
    async with elsewhere:
        with pytest.raises(wherry.SchemaError):
            await elsewhere.aenqueue("t")

    assert shown().of("wherry_command_errors_total") == 1


async def test_a_lease_that_was_lost_is_counted_once(
    app: wherry.App, shown: Shown, connect: Connect
) -> None:
    @app.task(name="t")
    async def t() -> None:
        # Another worker has it from now on, as far as the database knows.
        connect().execute("update wherry.live set token = token + 1")

    await app.aenqueue("t")
    async with at_work(app):
        await await_for(lambda: shown().of("wherry_worker_leases_lost_total") > 0)

    assert shown().of("wherry_worker_leases_lost_total") == 1


async def test_a_worker_that_has_only_a_server_tells_the_same(
    app: wherry.App,
) -> None:
    here = ServerSettings(grpc_address="127.0.0.1:0", http_address=None)
    async with Server(app, here) as server, wherry.App(f"grpc://{server.bound.grpc}") as remote:
        registry = CollectorRegistry()
        registry.register(Collector(remote))

        @remote.task(name="t")
        async def t() -> None: ...

        await remote.aenqueue("t")
        await drained(remote)
        told = Scraped(generate_latest(registry).decode())

    assert told.of("wherry_worker_outcomes_total", outcome="done") == 1
    assert told.of("wherry_command_seconds_count", command="poll_tasks") >= 1
    assert told.of("wherry_lease_batch_tasks_sum") == 1
    assert told.of("wherry_report_batch_tasks_sum") == 1


def test_nobody_counts_where_nobody_asks(app: wherry.App) -> None:
    app.enqueue("t")

    assert app.meters is None


@pytest.mark.parametrize(
    ("command", "name"),
    [(CancelTasks, "cancel_tasks"), (PauseQueue, "pause_queue"), (ReadTotals, "read_totals")],
)
def test_a_command_is_named_as_its_statement_is(command: type[Command[Any]], name: str) -> None:
    assert name_of(command) == name
