"""An idle worker is woken by what is enqueued, asks little, and finds everything without waking."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import wherry
from tests import rhythms
from tests.facts import await_for
from tests.rhythms import nothing_is_due, too_often, while_idle
from tests.statements import count_statements
from tests.worker.fake import FakeTransport, in_turn, make_lease
from tests.worker.support import at_work, finished
from wherry.commands.workers import StopWaiting, TransactionsEnded, WaitForTasks
from wherry.domain.arrivals import Arrivals
from wherry.domain.state import State
from wherry.errors import Unavailable
from wherry.worker.wakeups import Wakeups

Connect = Callable[..., psycopg.Connection[Any]]
NEVER = timedelta(seconds=600)


def waiting(connection: psycopg.Connection[Any]) -> bool:
    [[there]] = connection.execute("select exists (select from wherry.waiting)").fetchall()
    return bool(there)


async def test_an_idle_worker_is_woken_by_an_enqueue(app: wherry.App, connect: Connect) -> None:
    """With a poll every ten minutes, a task that starts at all was heard of."""

    @app.task(name="t")
    async def t() -> None:
        pass

    async with at_work(app, poll_every=NEVER, poll_every_when_listening=NEVER):
        connection = connect()
        await await_for(lambda: waiting(connection))
        for _ in range(5):
            made = await app.aenqueue("t")
            assert (await finished(app, made.id, seconds=10)).state is State.SUCCEEDED


async def test_a_worker_with_nothing_to_do_costs_less_than_a_statement_a_second(
    app: wherry.App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that it does: looks, polls, maintenance, beats, and saying that it waits."""
    app.task(name="t")(lambda: None)
    sent = count_statements(monkeypatch)
    connection = connect()
    nothing_is_due(connection, monkeypatch)
    async with at_work(app):
        await await_for(lambda: waiting(connection))
        await await_for(lambda: sent.count("workers/transactions_ended") > 2)

        names, seconds = await while_idle(sent)

    assert too_often(names, rhythms.WORKER, seconds=seconds) == {}
    assert rhythms.a_second(rhythms.WORKER) < 1


async def test_a_worker_that_may_not_listen_costs_less_than_three(
    app: wherry.App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.task(name="t")(lambda: None)
    sent = count_statements(monkeypatch)
    nothing_is_due(connect(), monkeypatch)
    async with at_work(app, listen=False):
        await await_for(lambda: sent.count("leases/lease_tasks") > 1)
        names, seconds = await while_idle(sent, after=["look_around"])

    assert too_often(names, rhythms.POLLING, seconds=seconds) == {}
    assert rhythms.a_second(rhythms.POLLING) < 3


async def test_a_transaction_that_could_not_see_the_worker_wait_is_not_missed(
    app: wherry.App, connect: Connect
) -> None:
    """It began before the worker came to wait, so its enqueue notifies nobody."""

    @app.task(name="t")
    async def t() -> None:
        pass

    other = connect(autocommit=False)
    other.execute("set transaction isolation level repeatable read")
    other.execute("select pg_current_xact_id()")
    async with at_work(app, poll_every_when_listening=NEVER):
        connection = connect()
        await await_for(lambda: waiting(connection))
        id_ = app.enqueue("t", tx=other).id
        other.commit()
        assert (await finished(app, id_)).state is State.SUCCEEDED


async def test_without_listening_everything_is_found_by_polling(
    app: wherry.App, connect: Connect
) -> None:
    """O3."""

    @app.task(name="t")
    async def t() -> None:
        pass

    async with at_work(app, listen=False, poll_every=timedelta(milliseconds=100)):
        for _ in range(3):
            made = await app.aenqueue("t")
            assert (await finished(app, made.id)).state is State.SUCCEEDED
        assert not waiting(connect())


async def test_losing_the_listener_costs_no_task(app: wherry.App, connect: Connect) -> None:
    """LN-01, DB-15, O3: its connection is cut again and again, and it comes back by itself."""

    @app.task(name="t")
    async def t() -> None:
        pass

    connection = connect()
    async with at_work(app, poll_every=timedelta(milliseconds=200)):
        for _ in range(4):
            await await_for(lambda: waiting(connection))
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name like 'wherry listener%'"
                "   and datname = current_database()"
            )
            made = await app.aenqueue("t")
            assert (await finished(app, made.id)).state is State.SUCCEEDED


async def test_a_delayed_task_starts_when_it_is_due_and_not_at_the_next_poll(
    app: wherry.App, connect: Connect
) -> None:
    """CRON-15: nor at the next look around; what was there before the worker came, too."""
    began: list[float] = []

    @app.task(name="t")
    async def t() -> None:
        began.append(time.monotonic())

    await app.aenqueue("t", delay=3)
    async with at_work(app, poll_every=NEVER, poll_every_when_listening=NEVER, look_every=NEVER):
        connection = connect()
        await await_for(lambda: waiting(connection))
        await await_for(lambda: len(began) == 1, seconds=20)
        sent = time.monotonic()
        for _ in range(3):
            await app.aenqueue("t", delay=0.3)
        await await_for(lambda: len(began) == 4, seconds=20)

    assert began[1] - sent >= 0.3


async def test_who_hears_of_nothing_starts_what_was_delayed_when_it_is_due(app: wherry.App) -> None:
    """CRON-15: its own look around says when the next task is due."""
    began = asyncio.Event()

    @app.task(name="t")
    async def t() -> None:
        began.set()

    await app.aenqueue("t", delay=2)
    options: dict[str, Any] = {"poll_every": timedelta(seconds=0.1), "look_every": NEVER}
    async with at_work(app, listen=False, **options), asyncio.timeout(20):
        await began.wait()


async def test_a_worker_that_keeps_up_wants_no_wakeups_until_it_is_idle(
    app: wherry.App, connect: Connect
) -> None:
    """Between any two tasks it has nothing to do. With such a poll nothing but it looks again."""

    @app.task(name="t")
    async def t() -> None:
        pass

    enough = asyncio.Event()
    connection = connect()

    async def produce() -> None:
        while not enough.is_set():
            await app.aenqueue("t")

    def left() -> int:
        [[tasks]] = connection.execute("select count(*) from wherry.live").fetchall()
        return int(tasks)

    async with at_work(app, poll_every=NEVER, poll_every_when_listening=NEVER):
        for _ in range(2):
            await await_for(lambda: waiting(connection))
            producers = [asyncio.create_task(produce()) for _ in range(8)]
            await await_for(lambda: not waiting(connection), seconds=30)
            enough.set()
            await asyncio.gather(*producers)
            await await_for(lambda: not left())
            enough.clear()


async def test_it_looks_twice_after_it_came_to_wait_and_then_sleeps() -> None:
    transport = FakeTransport({TransactionsEnded: lambda _: True})
    wakeups = sleeping(transport)

    async with asyncio.timeout(30):
        # It says that it waits, and everything is looked at again at once.
        await wakeups.pause()
        for _ in range(3):
            await wakeups.pause()
        pausing = asyncio.create_task(wakeups.pause())
        await asyncio.sleep(0)
        assert not pausing.done()
        wakeups.wake()
        await pausing

    assert len(transport.of(WaitForTasks)) == 1
    assert len(transport.of(TransactionsEnded)) == 3


async def test_a_wake_that_comes_during_a_look_is_not_lost() -> None:
    wakeups = sleeping(FakeTransport())
    async with asyncio.timeout(30):
        for _ in range(4):
            await wakeups.pause()
        wakeups.wake()
        await wakeups.pause()


async def test_a_busy_worker_wants_no_wakeups_and_says_so_once() -> None:
    transport = FakeTransport()
    wakeups = sleeping(transport)

    await wakeups.busy()
    await wakeups.pause()
    await wakeups.busy()
    await wakeups.busy()

    assert len(transport.of(StopWaiting)) == 1


async def test_a_listener_that_is_back_has_it_said_again_that_the_worker_waits() -> None:
    """The row may have been lost with the database that knew it."""
    transport = FakeTransport({TransactionsEnded: lambda _: True})
    wakeups = sleeping(transport)
    async with asyncio.timeout(30):
        for _ in range(4):
            await wakeups.pause()

        wakeups.heard("")
        await wakeups.pause()

    assert len(transport.of(WaitForTasks)) == 2


async def test_notifications_that_come_too_often_are_done_without() -> None:
    transport = FakeTransport()
    wakeups = sleeping(transport)
    await wakeups.pause()

    for _ in range(100):
        wakeups.heard("default")
    async with asyncio.timeout(30):
        for _ in range(3):
            # It does not look any sooner for what others are notified of.
            wakeups.heard("default")
            await wakeups.pause()

    assert len(transport.of(StopWaiting)) == 1
    assert len(transport.of(WaitForTasks)) == 1


async def test_who_lets_tasks_gather_can_be_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is told to stop does not wait; nor does one to which tasks come seldom."""
    monkeypatch.setattr("wherry.worker.wakeups.monotonic", lambda: 100.0)
    wakeups = sleeping(FakeTransport())
    wakeups.looked([make_lease()] * 120)
    await wakeups.gather()
    await wakeups.pause()
    for _ in range(100):
        wakeups.heard("default")
    await wakeups.pause()
    # Longer than this test may take: nothing but being woken ends it.
    monkeypatch.setattr(Arrivals, "pause", 1000.0)
    wakeups.looked([make_lease()] * 120)

    gathering = asyncio.create_task(wakeups.gather())
    done, _ = await asyncio.wait([gathering], timeout=0.05)
    assert not done
    wakeups.wake()
    await gathering


async def test_notifications_of_queues_of_others_are_not_heard() -> None:
    wakeups = sleeping(FakeTransport())
    async with asyncio.timeout(30):
        for _ in range(4):
            await wakeups.pause()

    for _ in range(100):
        wakeups.heard("other")
    pausing = asyncio.create_task(wakeups.pause())
    await asyncio.sleep(0)

    assert not pausing.done()
    wakeups.heard("default")
    await pausing


async def test_a_worker_whose_asking_failed_takes_it_back_all_the_same() -> None:
    """The answer was lost, so it may have been heard: every commit would notify for nothing."""
    transport = FakeTransport({WaitForTasks: in_turn(Unavailable("gone"))})
    wakeups = sleeping(transport)
    with pytest.raises(Unavailable):
        await wakeups.pause()

    await wakeups.busy()

    assert len(transport.of(StopWaiting)) == 1


@pytest.mark.parametrize("listening", [True, False])
async def test_pauses_end_when_the_poll_is_due(listening: bool) -> None:
    transport = FakeTransport({TransactionsEnded: lambda _: False})
    wakeups = sleeping(transport, poll_seconds=0.01, is_listening=listening)

    async with asyncio.timeout(30):
        for _ in range(20):
            await wakeups.pause()

    assert len(transport.of(WaitForTasks)) == (1 if listening else 0)


def sleeping(
    transport: FakeTransport, *, poll_seconds: float = 600.0, is_listening: bool = True
) -> Wakeups:
    return Wakeups(
        transport,
        instance="00000000-0000-0000-0000-000000000000",
        queues=("default",),
        poll_seconds=poll_seconds,
        poll_seconds_listening=poll_seconds,
        is_listening=lambda: is_listening,
    )
