"""Manual mode: real rows, worked off on request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for
from wherry.testing import Clock, Manual, Ran, manual

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def tasks(app: wherry.App) -> Manual:
    return manual(app)


def seen(ran: list[Ran]) -> list[tuple[str, int, str]]:
    return [(each.type, each.attempt, str(each.answer)) for each in ran]


def test_nothing_runs_before_it_is_drained(app: wherry.App, tasks: Manual) -> None:
    got: list[int] = []

    @app.task(name="note", queue="other")
    def note(n: int) -> int:
        got.append(n)
        return n

    enqueued = note.enqueue(n=1)
    assert got == []
    ran = tasks.drain()

    assert got == [1]
    assert ran == [Ran(enqueued.id, "note", "other", {"n": 1}, 1, wherry.Reported.DONE, value=1)]
    task = app.get_task(enqueued.id)
    assert task is not None
    assert task.state == "succeeded"


async def test_a_drain_in_a_loop_runs_async_handlers_there(app: wherry.App, tasks: Manual) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    @app.task(name="look")
    async def look() -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    await look.aenqueue()
    ran = await tasks.adrain()

    assert seen(ran) == [("look", 1, "done")]
    assert loops == [asyncio.get_running_loop()]


async def test_a_blocking_drain_in_a_loop_is_refused(tasks: Manual) -> None:
    with pytest.raises(wherry.BlockingInLoop, match="adrain"):
        tasks.drain()


def test_tasks_run_by_priority_and_then_in_their_order(app: wherry.App, tasks: Manual) -> None:
    @app.task(name="note")
    def note(n: int) -> None: ...

    note.enqueue_many([{"n": 1}, {"n": 2}])
    note.using(priority=5).enqueue(n=3)
    ran = tasks.drain()

    assert [each.payload["n"] for each in ran] == [3, 1, 2]


def test_what_a_handler_enqueues_runs_too(app: wherry.App, tasks: Manual) -> None:
    @app.task(name="second")
    def second() -> None: ...

    @app.task(name="first")
    def first() -> None:
        wherry.current().enqueue("second")

    first.enqueue()

    assert seen(tasks.drain()) == [("first", 1, "done"), ("second", 1, "done")]


def test_a_rolled_back_task_never_runs(app: wherry.App, tasks: Manual, connect: Connect) -> None:
    @app.task(name="note")
    def note(n: int) -> None: ...

    with connect() as connection:
        with connection.transaction(force_rollback=True):
            note.using(tx=connection).enqueue(n=1)
        with connection.transaction():
            note.using(tx=connection).enqueue(n=2)
    ran = tasks.drain()

    assert [each.payload for each in ran] == [{"n": 2}]


def test_an_error_is_recorded_and_then_raised(app: wherry.App, tasks: Manual) -> None:
    @app.task(name="fail", max_attempts=2)
    def fail() -> None:
        raise OSError("no route")

    enqueued = fail.enqueue()
    with pytest.raises(OSError, match="no route") as caught:
        tasks.drain()

    assert caught.traceback[-1].name == "fail"
    task = app.get_task(enqueued.id)
    assert task is not None
    assert (task.state, task.attempts, task.error) == ("queued", 1, "OSError: no route")


def test_a_retry_is_run_when_its_time_has_come(
    app: wherry.App, tasks: Manual, clock: Clock
) -> None:
    @app.task(name="fail", max_attempts=2, retry=wherry.Fixed(timedelta(minutes=5)))
    async def fail() -> None:
        raise OSError("no route")

    fail.enqueue()
    first = tasks.drain(raise_errors=False)
    too_early = tasks.drain(raise_errors=False)
    clock.advance(minutes=6)
    second = tasks.drain(raise_errors=False)

    assert seen(first) == [("fail", 1, "requeued")]
    assert isinstance(first[0].error, OSError)
    assert too_early == []
    assert seen(second) == [("fail", 2, "dead")]


@pytest.mark.parametrize(
    ("signal", "answer"),
    [
        (wherry.Fail("no such address"), "failed"),
        (wherry.Retry("busy", after=60), "requeued"),
        (wherry.Snooze(60), "requeued"),
        (wherry.Cancel("not wanted"), "canceled"),
    ],
)
def test_signals_are_recorded_and_not_raised(
    app: wherry.App, tasks: Manual, signal: wherry.Outcome, answer: str
) -> None:
    @app.task(name="signal")
    def handler() -> None:
        raise signal

    handler.enqueue()
    [ran] = tasks.drain()

    assert (str(ran.answer), ran.error) == (answer, signal)


def test_delayed_tasks_wait_for_the_clock(app: wherry.App, tasks: Manual, clock: Clock) -> None:
    @app.task(name="note")
    def note() -> None: ...

    note.using(delay=timedelta(days=40)).enqueue()
    assert tasks.drain() == []
    clock.advance(days=40, seconds=1)

    assert seen(tasks.drain()) == [("note", 1, "done")]


def test_a_task_past_its_ttl_does_not_run(app: wherry.App, tasks: Manual, clock: Clock) -> None:
    @app.task(name="note", ttl=60)
    def note() -> None: ...

    enqueued = note.enqueue()
    clock.advance(minutes=2)

    assert tasks.drain() == []
    task = app.get_task(enqueued.id)
    assert task is not None
    assert (task.state, task.reason) == ("canceled", "expired")


def test_a_timeout_is_kept(app: wherry.App, tasks: Manual) -> None:
    @app.task(name="sleep", timeout=0.05)
    async def sleep() -> None:
        await asyncio.sleep(60)

    sleep.enqueue()
    with pytest.raises(TimeoutError, match=r"longer than 0\.05 s"):
        tasks.drain()


def test_other_queues_and_unknown_types_are_left_alone(app: wherry.App, tasks: Manual) -> None:
    @app.task(name="note")
    def note() -> None: ...

    note.using(queue="a").enqueue()
    note.using(queue="b").enqueue()
    app.enqueue("unknown", {}, queue="b")

    assert [each.queue for each in tasks.drain(queues=["b"])] == ["b"]
    assert [each.queue for each in tasks.drain()] == ["a"]


def test_tasks_without_end_are_stopped(app: wherry.App, tasks: Manual) -> None:
    @app.task(name="again")
    def again() -> None:
        again.enqueue()

    again.enqueue()
    with pytest.raises(RuntimeError, match="lastly of again"):
        tasks.drain(limit=5)


def test_a_handler_may_complete_in_its_own_transaction(
    app: wherry.App, tasks: Manual, connect: Connect
) -> None:
    with connect() as connection:
        connection.execute("create table effects (n int)")

    @app.task(name="commit")
    def commit(n: int) -> None:
        with connect() as connection, connection.transaction():
            connection.execute("insert into effects values (%s)", [n])
            wherry.current().complete(tx=connection)

    @app.task(name="forget", max_attempts=1)
    def forget() -> None:
        with connect() as connection, connection.transaction(force_rollback=True):
            wherry.current().complete(tx=connection)

    commit.enqueue(n=7)
    forget.enqueue()
    ran = tasks.drain(raise_errors=False)

    assert seen(ran) == [("commit", 1, "already_done"), ("forget", 1, "dead")]
    assert ran[0].error is None
    assert isinstance(ran[1].error, wherry.HandlerError)
    assert "did not commit" in str(ran[1].error)


def test_a_payload_that_does_not_fit_is_an_error(app: wherry.App, tasks: Manual) -> None:
    @app.task(name="note")
    def note(n: int) -> None: ...

    app.enqueue("note", {"m": 1})
    with pytest.raises(wherry.HandlerError, match="lacks n"):
        tasks.drain()


async def test_a_canceled_drain_gives_its_task_back(app: wherry.App, tasks: Manual) -> None:
    started = threading.Event()

    @app.task(name="sleep")
    async def sleep() -> None:
        started.set()
        await asyncio.sleep(60)

    enqueued = await sleep.aenqueue()
    draining = asyncio.create_task(tasks.adrain())
    await await_for(started.is_set)
    draining.cancel()

    with pytest.raises(asyncio.CancelledError):
        await draining
    task = await app.aget_task(enqueued.id)
    assert task is not None
    assert (task.state, task.attempts) == ("queued", 0)


async def test_a_time_limit_around_a_drain_holds(app: wherry.App, tasks: Manual) -> None:
    @app.task(name="sleep")
    async def sleep() -> None:
        await asyncio.sleep(60)

    await sleep.aenqueue_many([{}, {}])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await tasks.adrain()
