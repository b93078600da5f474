"""Workers outlive their database: stopped, crashed, frozen and flapping, without a restart."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import wherry
from tests.e2e.workers import (
    PrivateServer,
    WorkerProcess,
    effects,
    make_effects,
    one_row,
    sessions,
    starts,
    states,
    wait_until_up,
)
from tests.facts import await_for, wait_for
from tests.lateness import late_loop, late_machine
from wherry.domain.retry import Fixed
from wherry.domain.state import State
from wherry.migrations import migrate

Start = Callable[..., WorkerProcess]
# Leasing, reporting, maintenance, heartbeat and listener; handlers here do not use the App's pool.
MOST_SESSIONS = 5


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="wp-", dir="/tmp")).resolve()
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[PrivateServer]:
    made = PrivateServer(place)
    yield made
    made.close()


@pytest.fixture
def dsn(server: PrivateServer) -> str:
    """The private server's database, empty but for our schema."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("drop schema if exists wherry cascade")
        connection.execute("drop table if exists effect")
    migrate(server.dsn)
    return server.dsn


@pytest.fixture
def start(dsn: str, tmp_path: Path) -> Iterator[Start]:
    """Start a worker process and wait until it is up; it is gone when the test ends."""
    started: list[WorkerProcess] = []

    def start(name: str = "w1", **options: object) -> WorkerProcess:
        worker = WorkerProcess(dsn, tmp_path, name, **options)
        started.append(worker)
        wait_until_up(worker)
        return worker

    yield start
    for worker in started:
        worker.end()


@pytest.fixture
def queue(dsn: str) -> Iterator[wherry.App]:
    """An App that only enqueues and looks."""
    with wherry.App(dsn) as app:
        yield app


def enqueue_effects(queue: wherry.App, n: int, *, seconds: float = 0.0, first: int = 0) -> None:
    queue.enqueue_many(
        [
            {"type": "effect", "payload": {"n": i, "seconds": seconds}, "retry": Fixed(0)}
            for i in range(first, first + n)
        ]
    )


@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL], ids=["fast", "immediate", "crash"]
)
def test_a_restart_under_load_costs_no_task_and_no_worker(
    server: PrivateServer, dsn: str, queue: wherry.App, start: Start, how: signal.Signals
) -> None:
    """DB-01, DB-17: what was being reported is reported again, and nothing runs twice for good."""
    make_effects(dsn)
    workers = [start(f"w{n}", lease_for=2, concurrency=4) for n in (1, 2)]
    enqueue_effects(queue, 100, seconds=0.02)
    for n in range(2):
        wait_for(lambda n=n: effects(dsn)[0] > 15 * (n + 1), seconds=20)  # type: ignore[misc]
        server.restart(how)

    wait_for(lambda: states(dsn) == {"succeeded": 100}, seconds=40)

    assert effects(dsn) == (100, 100)
    for worker in workers:
        assert worker.process.poll() is None
        # A restart is worth a few lines, and no traceback but of handlers' own connections.
        ours = [line for line in worker.log.splitlines() if line.startswith("ERROR")]
        assert ours == []


def test_after_an_outage_an_idle_worker_starts_the_first_task_soon(
    server: PrivateServer, dsn: str, queue: wherry.App, start: Start
) -> None:
    """DB-01, DB-05: and an outage is a few lines in the log, not a few thousand."""
    worker = start(lease_for=2)
    lines_before = worker.log.count("\n")
    server.stop()
    stopped_at = time.monotonic()
    wait_for(lambda: time.monotonic() - stopped_at > 4)
    server.start()
    id_ = queue.enqueue("sleeps", {"seconds": 0}).id

    wait_for(lambda: states(dsn) == {"succeeded": 1}, seconds=15)

    assert queue.get_task(id_) is not None
    assert worker.process.poll() is None
    # About one by each of its five loops.
    assert worker.log.count("\n") - lines_before <= 8


def test_a_flapping_server_never_has_more_sessions_of_a_worker_than_promised(
    server: PrivateServer, dsn: str, queue: wherry.App, start: Start
) -> None:
    """DB-10."""
    make_effects(dsn)
    worker = start(lease_for=2, concurrency=3)
    enqueue_effects(queue, 60, seconds=0.05)
    most: Counter[str] = Counter()
    for _ in range(4):
        up_until = time.monotonic() + 0.5
        while time.monotonic() < up_until:
            with suppress(psycopg.OperationalError):
                most |= sessions(dsn)
        server.stop(signal.SIGQUIT)
        server.start()

    wait_for(lambda: states(dsn) == {"succeeded": 60}, seconds=40)

    ours = {name: n for name, n in most.items() if name.endswith(" w1")}
    assert len(ours) <= MOST_SESSIONS
    assert set(ours.values()) == {1}
    assert effects(dsn) == (60, 60)
    assert worker.process.poll() is None


@pytest.mark.parametrize("away", ["stopped", "frozen"])
def test_a_shutdown_without_a_database_ends_in_time_and_says_what_it_could_not_store(
    server: PrivateServer, dsn: str, queue: wherry.App, start: Start, tmp_path: Path, away: str
) -> None:
    """DB-06: those tasks run again when their leases have run out."""
    worker = start(lease_for=3, shutdown_timeout=1)
    gate = tmp_path / "gate"
    id_ = queue.enqueue("waits", {"path": str(gate)}, retry=Fixed(0)).id
    wait_for(lambda: starts(tmp_path)["start", id_])
    frozen = server.freeze() if away == "frozen" else []
    if away == "stopped":
        server.stop(signal.SIGQUIT)
    try:
        gate.touch()
        wait_for(lambda: starts(tmp_path)["end", id_])
        worker.send(signal.SIGTERM)
        code = worker.ended()
    finally:
        server.thaw(frozen)
        if away == "stopped":
            server.start()

    assert code == 1, worker.log
    assert f"could not be stored, they will run again: {id_}" in worker.log
    start("w2", lease_for=2)
    wait_for(lambda: states(dsn) == {"succeeded": 1}, seconds=20)
    assert starts(tmp_path)["start", id_] == 2


async def test_a_frozen_server_costs_a_handler_its_lease_and_the_handler_knows_in_time(
    server: PrivateServer, dsn: str
) -> None:
    """L8: no effect after the end of the lease, although nobody answers that it is lost."""
    app = wherry.App(dsn)
    ended: list[float] = []
    began = asyncio.Event()

    @app.task(name="hangs", retry=Fixed(0))
    async def hangs() -> None:
        began.set()
        if ended:
            return
        try:
            await asyncio.sleep(600)
        finally:
            ended.append(wherry.current().lease.remaining)

    id_ = (await app.aenqueue("hangs")).id
    work = asyncio.create_task(app.awork(lease_for=2, shutdown_timeout=0))
    await began.wait()
    frozen = server.freeze()
    try:
        async with late_loop() as loop:
            await await_for(lambda: ended, seconds=60)
    finally:
        server.thaw(frozen)

    async def succeeded() -> bool:
        task = await app.aget_task(id_)
        return task is not None and task.state is State.SUCCEEDED

    await await_for(succeeded, seconds=20)  # type: ignore[arg-type]
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    await app.aclose()
    assert -loop.longest < ended[0] <= 0.2


async def test_a_worker_in_somebodys_loop_leaves_it_alone_during_an_outage(
    server: PrivateServer, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """DB-05: the host application goes on answering."""
    app = wherry.App(dsn)

    @app.task(name="t")
    async def t() -> None:
        pass

    async with late_loop() as host:
        with late_machine() as machine:
            work = asyncio.create_task(app.awork(lease_for=2))
            leasing = f"wherry leasing {os.uname().nodename}-{os.getpid()}"
            await await_for(lambda: sessions(dsn)[leasing])
            with caplog.at_level(logging.WARNING):
                await asyncio.to_thread(server.stop, signal.SIGQUIT)
                await asyncio.sleep(3)
                assert not work.done()
                await asyncio.to_thread(server.start)
            made = await app.aenqueue("t")
            await await_for(lambda: states(dsn) == {"succeeded": 1}, seconds=15)
            work.cancel()
            await asyncio.wait([work])
            await app.aclose()

    assert made.created
    assert host.longest < 1 + machine.longest
    # About one by each of the five loops of a worker.
    assert len(caplog.records) <= 10


def test_an_idle_worker_asks_about_once_a_second(dsn: str, start: Start) -> None:
    """On a server that nobody else uses; a little more without LISTEN."""
    seconds = 3.0

    def rate() -> float:
        """Return how many statements of workers begin in a second, by looking often."""
        seen: set[tuple[str, Any]] = set()
        begun = time.monotonic()
        with psycopg.connect(dsn, autocommit=True) as connection:
            while time.monotonic() - begun < seconds:
                seen |= set(
                    connection.execute(
                        "select application_name, query_start from pg_stat_activity"
                        " where application_name like 'wherry %'"
                        "   and query_start > now() - interval '1 second'"
                    ).fetchall()
                )
                time.sleep(0.02)
        return len(seen) / seconds

    worker = start(lease_for=30)
    asleep = "select exists (select from wherry.waiting)"
    wait_for(lambda: one_row(dsn, asleep) == (True,), what="it waits for tasks")

    # What they do once at the start is over soon, and in a hot loop they would ask all the time.
    wait_for(lambda: rate() < 4, seconds=40, what="it asks little while it listens")
    worker.send(signal.SIGTERM)
    worker.ended()
    start("w2", lease_for=30, listen=False)
    wait_for(lambda: rate() < 6, seconds=40, what="it asks little while it polls")


def test_handlers_that_stream_rows_get_an_error_when_the_server_goes(
    server: PrivateServer, dsn: str
) -> None:
    """DB-17: and their tasks are done in another attempt."""
    app = wherry.App(dsn)
    reading: set[int] = set()
    is_back = threading.Event()

    @app.task(name="streams", retry=Fixed(0), max_attempts=5)
    async def streams() -> None:
        # Not by the attempt: a crash may have forgotten the last leases, which then count anew.
        rows = 50 if is_back.is_set() else 100_000_000
        async with (
            await psycopg.AsyncConnection.connect(dsn, connect_timeout=5) as connection,
            connection.cursor(name="c") as cursor,
        ):
            await cursor.execute("select generate_series(1, %s)", [rows])
            async for _ in cursor:
                reading.add(wherry.current().task_id)
                await asyncio.sleep(0)

    for _ in range(10):
        app.enqueue("streams")
    worker = threading.Thread(target=lambda: app.work(lease_for=2, until_empty=True))
    worker.start()
    wait_for(lambda: len(reading) == 10, seconds=20)
    is_back.set()
    server.restart(signal.SIGQUIT)

    worker.join(40)
    assert not worker.is_alive()
    app.close()
    assert states(dsn) == {"succeeded": 10}
