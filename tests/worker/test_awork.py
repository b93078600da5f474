"""A worker as a guest: in somebody's loop, beside another one, in a thread, loop after loop."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for, wait_for
from tests.worker.support import Slots, at_work, finished, get, in_state, settings
from wherry.app.work import run_worker
from wherry.domain.state import State
from wherry.errors import ConfigError, InvalidOption
from wherry.maintenance.service import Maintenance
from wherry.transport.listen import Listener
from wherry.worker.summary import Summary
from wherry.worker.worker import Worker

Connect = Callable[..., psycopg.Connection[Any]]
HANGS = 600


async def test_canceling_it_lets_handlers_finish_and_reports_them(app: wherry.App) -> None:
    began = asyncio.Event()

    @app.task(name="t")
    async def t() -> None:
        began.set()
        await asyncio.sleep(0.2)

    id_ = (await app.aenqueue("t")).id
    work = asyncio.create_task(app.awork(concurrency=2))
    await began.wait()
    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work
    assert (await get(app, id_)).state is State.SUCCEEDED


async def test_canceling_it_twice_hurries_it(app: wherry.App) -> None:
    began = asyncio.Event()

    @app.task(name="t")
    async def t() -> None:
        began.set()
        await asyncio.sleep(HANGS)

    id_ = (await app.aenqueue("t")).id
    work = asyncio.create_task(app.awork(concurrency=2))
    await began.wait()
    work.cancel()
    await asyncio.sleep(0.01)
    assert not work.done()
    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(30):
            await work
    task = await get(app, id_)
    assert (task.state, task.attempts) == (State.QUEUED, 0)


def test_the_end_of_the_whole_loop_gives_back_what_runs(dsn: str) -> None:
    """As asyncio.run does it: everything is canceled at once, the worker's own parts too."""
    app = wherry.App(dsn)

    async def main() -> list[int]:
        began = asyncio.Barrier(3)

        @app.task(name="t")
        async def t() -> None:
            await began.wait()
            await asyncio.sleep(HANGS)

        ids = [(await app.aenqueue("t")).id for _ in range(2)]
        main.work = asyncio.create_task(app.awork(concurrency=4))  # type: ignore[attr-defined]
        await began.wait()
        return ids

    # The handlers would run for ten minutes.
    ids = asyncio.run(main(), debug=True)

    for id_ in ids:
        task = app.get_task(id_)
        assert task is not None
        assert (task.state, task.attempts) == (State.QUEUED, 0)
    app.close()


async def test_it_leaves_the_signals_to_the_owner_of_the_loop(app: wherry.App) -> None:
    @app.task(name="t")
    async def t() -> None:
        pass

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    work = asyncio.create_task(app.awork())
    await finished(app, (await app.aenqueue("t")).id)

    assert {number: signal.getsignal(number) for number in before} == before
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


async def test_two_workers_in_one_loop_do_not_take_each_others_pool(app: wherry.App) -> None:
    """The first one ends while handlers of the second one use the App."""
    began, may_end = asyncio.Event(), asyncio.Event()

    @app.task(name="uses the app", max_attempts=1)
    async def uses_the_app() -> None:
        began.set()
        await may_end.wait()
        for _ in range(20):
            await app.aenqueue("nobody knows this")

    first = asyncio.create_task(app.awork(queues=["elsewhere"]))
    second = asyncio.create_task(app.awork())
    id_ = (await app.aenqueue("uses the app")).id
    await began.wait()
    first.cancel()
    may_end.set()
    with suppress(asyncio.CancelledError):
        await first
    task = await finished(app, id_)
    second.cancel()
    with suppress(asyncio.CancelledError):
        await second

    assert (task.state, task.error) == (State.SUCCEEDED, None)


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"lease_for": 0.5}, {"lease_for": float("nan")}, {"queues": "a"}]
)
async def test_bad_settings_are_refused_before_anything_starts(
    app: wherry.App, wrong: dict[str, Any]
) -> None:
    """RET-07."""

    @app.task(name="t")
    async def t() -> None:
        pass

    with pytest.raises((ConfigError, InvalidOption)):
        await app.awork(**wrong)


async def test_an_app_without_types_has_nothing_to_work_on(app: wherry.App) -> None:
    with pytest.raises(ConfigError, match="no task type is registered"):
        await app.awork()


@pytest.mark.parametrize("service", [Maintenance, Listener])
async def test_a_service_that_dies_by_a_mistake_of_ours_ends_the_worker_visibly(
    app: wherry.App, monkeypatch: pytest.MonkeyPatch, service: type[Any]
) -> None:
    may_die = asyncio.Event()

    async def dies(_self: Any) -> None:
        await may_die.wait()
        raise KeyError("a bug")

    monkeypatch.setattr(service, "run", dies)

    @app.task(name="t")
    async def t() -> None:
        await asyncio.sleep(0.2)

    id_ = (await app.aenqueue("t")).id
    work = asyncio.create_task(app.awork())
    await in_state(app, id_, State.LEASED)
    may_die.set()

    with pytest.raises(KeyError, match="a bug"):
        async with asyncio.timeout(30):
            await work
    # What ran was settled first.
    assert (await get(app, id_)).state is State.SUCCEEDED


async def test_a_log_that_cannot_be_written_stops_nothing(
    app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HND-13: EPIPE on the stream that the log goes to."""

    class Broken:
        def write(self, _text: str) -> None:
            raise BrokenPipeError(32, "Broken pipe")

        def flush(self) -> None:
            raise BrokenPipeError(32, "Broken pipe")

    @app.task(name="fails", max_attempts=1)
    async def fails() -> None:
        raise ValueError("logged in vain")

    monkeypatch.setattr(logging, "raiseExceptions", False)
    handler = logging.StreamHandler(Broken())
    logger = logging.getLogger("wherry")
    slots = Slots(app, 2)
    logger.addHandler(handler)
    try:
        async with at_work(app, concurrency=2):
            for _ in range(3):
                task = await finished(app, (await app.aenqueue("fails")).id)
                assert task.state is State.DEAD
            await slots.are_all_used()
    finally:
        logger.removeHandler(handler)


async def test_a_worker_that_starts_while_the_database_is_gone_says_so(dsn: str) -> None:
    app = wherry.App("host=/nonexistent dbname=gone connect_timeout=2")

    @app.task(name="t")
    async def t() -> None:
        pass

    with pytest.raises((psycopg.OperationalError, wherry.errors.Unavailable)):
        async with asyncio.timeout(20):
            await app.awork()


async def test_a_worker_holds_no_more_connections_than_it_says(
    app: wherry.App, connect: Connect
) -> None:
    """DB-10: five and the pool, whatever handlers do."""

    @app.task(name="t")
    async def t() -> None:
        await asyncio.gather(*(app.aget_task(1) for _ in range(20)))

    connection = connect()

    def count() -> dict[str, int]:
        rows = connection.execute(
            "select split_part(application_name, ' ', 2), count(*) from pg_stat_activity"
            " where datname = current_database() and application_name like 'wherry %'"
            " group by 1"
        ).fetchall()
        return {str(kind): int(n) for kind, n in rows}

    most: dict[str, int] = {}
    async with at_work(app, concurrency=20):
        ids = [(await app.aenqueue("t")).id for _ in range(8)]

        async def all_done() -> bool:
            for kind, n in (await asyncio.to_thread(count)).items():
                most[kind] = max(most.get(kind, 0), n)
            return (await get(app, ids[-1])).state.is_final

        await await_for(all_done, seconds=30)  # type: ignore[arg-type]

    assert most.pop("app") <= 10
    assert set(most) <= {"leasing", "reporting", "maintenance", "heartbeat", "listener"}
    assert set(most.values()) == {1}
    wait_for(lambda: set(count()) <= {"app"})


async def test_a_thread_that_goes_on_is_left_behind_and_named(
    app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SHUT-11."""
    may_end = threading.Event()
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task(name="deaf")
    def deaf() -> None:
        loop.call_soon_threadsafe(began.set)
        may_end.wait(60)

    id_ = (await app.aenqueue("deaf")).id
    caught: list[Worker] = []
    run = Worker.run

    async def remembered(worker: Worker) -> Summary:
        caught.append(worker)
        return await run(worker)

    monkeypatch.setattr(Worker, "run", remembered)
    work = asyncio.create_task(
        run_worker(app, queues=None, settings=settings(shutdown=0.1, lease_for=30))
    )
    await began.wait()
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    may_end.set()

    [worker] = caught
    assert worker.summary.abandoned == [id_]
    assert worker.summary.exit_code == 1
    assert (await get(app, id_)).state is State.LEASED
