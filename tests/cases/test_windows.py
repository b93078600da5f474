"""What the event loops of Windows cannot do is said at once, by whatever needs it.

They stand here as loops that lack the same methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import wherry
from wherry.cli.running import Run
from wherry.cli.supervisor import Supervisor
from wherry.config import ServerSettings
from wherry.server.run import serve

Connect = Callable[..., psycopg.Connection[Any]]
NOWHERE = "postgresql://127.0.0.1:1/none"
SERVER = ServerSettings(grpc_address=None, http_address="127.0.0.1:0", auth=False)


class WithoutSignals(asyncio.SelectorEventLoop):
    """As every loop on Windows."""

    add_signal_handler = asyncio.AbstractEventLoop.add_signal_handler


class WithoutReaders(asyncio.SelectorEventLoop):
    """As the Proactor, which is the one that a program on Windows gets."""

    add_reader = asyncio.AbstractEventLoop.add_reader


def test_a_worker_whose_loop_handles_no_signals_says_so_and_leaves_nothing(
    app: wherry.App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-06: it leases nothing, and nothing of it remains."""
    app.task(name="t")(lambda: None)
    app.enqueue("t")
    monkeypatch.setattr(asyncio, "new_event_loop", WithoutSignals)

    with pytest.raises(wherry.ConfigError, match="WithoutSignals handles no signals.*WSL"):
        app.work(until_empty=True)

    told = "select state, attempts, (select count(*) from wherry.worker) from wherry.live"
    assert connect().execute(told).fetchall() == [("ready", 0, 0)]


def test_so_do_a_server_and_a_supervisor(dsn: str) -> None:
    """RUN-06."""
    wanted = Run(
        queues=None,
        concurrency=1,
        name=None,
        lease_for=timedelta(seconds=30),
        shutdown_timeout=timedelta(seconds=1),
        until_empty=True,
        listen=True,
        allow_unsafe_database=False,
    )
    supervisor = Supervisor([], wanted, processes=2, environment={})
    with wherry.App(dsn) as app, asyncio.Runner(loop_factory=WithoutSignals) as runner:
        for run in (lambda: serve(app, SERVER, signals=True), supervisor.run):
            with pytest.raises(wherry.ConfigError, match="handles no signals"):
                runner.run(run())


def test_a_loop_that_cannot_wait_for_a_database_is_refused_before_one_is_looked_for() -> None:
    """RUN-06: it would look like a database that is away, and be waited for."""
    app = wherry.App(NOWHERE)
    app.task(name="t")(lambda: None)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: app.aenqueue("t"),
        lambda: app.awork(until_empty=True),
        lambda: serve(app, SERVER),
    ]

    with asyncio.Runner(loop_factory=WithoutReaders) as runner:
        for call in calls:
            with pytest.raises(wherry.ConfigError, match="WithoutReaders cannot wait.*Selector"):
                runner.run(_awaited(call))


async def _awaited(call: Callable[[], Awaitable[object]]) -> None:
    await call()
