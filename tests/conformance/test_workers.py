"""A worker behaves the same, whether it has the database or only a server."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest

import wherry
from tests.facts import await_for
from tests.worker.support import (
    all_finished,
    at_work,
    drained,
    failed_once,
    finished,
    get,
    in_state,
    until,
)
from wherry.commands.maintenance import ParkTasks
from wherry.commands.workers import BeatWorker
from wherry.domain.retry import Fixed
from wherry.domain.state import State
from wherry.worker import keeper


async def test_async_and_plain_handlers_run_and_their_results_are_stored(app: wherry.App) -> None:
    @app.task(name="adds", store_result=True)
    async def adds(a: int, b: int) -> int:
        return a + b

    @app.task(name="multiplies", store_result=True)
    def multiplies(a: int, b: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        return a * b

    one = await app.aenqueue("adds", {"a": 2, "b": 3})
    two = await app.aenqueue("multiplies", {"a": 2, "b": 3})

    async with at_work(app):
        assert await one.aresult(timeout=20) == 5
        assert await two.aresult(timeout=20) == 6
        assert (await finished(app, one.id)).state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("signal", "state", "attempts"),
    [
        (lambda: wherry.Fail("as ordered"), State.FAILED, 1),
        (lambda: wherry.Cancel("as ordered"), State.CANCELED, 1),
        (lambda: ValueError("as ordered"), State.DEAD, 2),
        (lambda: wherry.Retry("as ordered", after=0), State.DEAD, 2),
    ],
    ids=["fail", "cancel", "error", "retry"],
)
async def test_what_a_handler_raises_says_how_its_task_ends(
    app: wherry.App, signal: Callable[[], Exception], state: State, attempts: int
) -> None:
    @app.task(name="raises", max_attempts=2, retry=Fixed(0))
    async def raises() -> None:
        raise signal()

    id_ = (await app.aenqueue("raises")).id

    async with at_work(app):
        task = await finished(app, id_)

    assert (task.state, task.attempts) == (state, attempts)
    assert [attempt.message for attempt in task.history] == ["as ordered"] * attempts


async def test_a_snoozed_task_comes_again_and_the_attempt_does_not_count(app: wherry.App) -> None:
    starts: list[int] = []

    @app.task(name="snoozes", max_attempts=1)
    async def snoozes() -> None:
        starts.append(wherry.current().attempt)
        if len(starts) == 1:
            raise wherry.Snooze(0.05)

    id_ = (await app.aenqueue("snoozes")).id

    async with at_work(app):
        task = await finished(app, id_)

    assert (task.state, starts) == (State.SUCCEEDED, [1, 1])


async def test_a_handler_enqueues_through_its_context(app: wherry.App) -> None:
    made: list[int] = []

    @app.task(name="parent")
    async def parent() -> None:
        made.append((await wherry.current().aenqueue("child", {"n": 1})).id)

    @app.task(name="child")
    def child(n: int) -> None:
        if n:
            made.append(wherry.current().enqueue("child", {"n": n - 1}).id)

    await app.aenqueue("parent")
    async with at_work(app):
        await await_for(lambda: len(made) == 2)
        tasks = await all_finished(app, made)

    assert [task.state for task in tasks] == [State.SUCCEEDED] * 2


async def test_a_running_handler_is_told_of_its_cancel(app: wherry.App) -> None:
    @app.task(name="waits")
    async def waits() -> None:
        await asyncio.Event().wait()

    id_ = (await app.aenqueue("waits")).id

    async with at_work(app, lease_for=3):
        await in_state(app, id_, State.LEASED)
        assert await app.acancel(id_, reason="enough") is wherry.Canceled.REQUESTED
        task = await finished(app, id_)

    assert (task.state, task.reason) == (State.CANCELED, "enough")


async def test_leases_are_kept_for_as_long_as_a_handler_runs(app: wherry.App) -> None:
    go_on = asyncio.Event()

    @app.task(name="long", max_attempts=1)
    async def long() -> None:
        await go_on.wait()

    id_ = (await app.aenqueue("long")).id

    async with at_work(app, lease_for=4):
        first = (await in_state(app, id_, State.LEASED)).lease
        assert first is not None

        async def outlived() -> bool:
            lease = (await get(app, id_)).lease
            return lease is not None and lease.expires_at > first.expires_at + timedelta(seconds=5)

        await until(outlived, what="the lease outlives its first end")
        go_on.set()
        task = await finished(app, id_)

    assert (task.state, task.attempts) == (State.SUCCEEDED, 1)


async def test_higher_priorities_run_first(app: wherry.App) -> None:
    order: list[int] = []

    @app.task(name="t")
    async def t(n: int) -> None:
        order.append(n)

    await app.aenqueue_many(
        [{"type": "t", "payload": {"n": n}, "priority": n} for n in (0, 50, -50, 100)]
    )

    await drained(app, concurrency=1)

    assert order == [100, 50, 0, -50]


async def test_until_empty_works_off_a_flood_and_what_becomes_due_meanwhile(
    app: wherry.App,
) -> None:
    done: list[int] = []

    @app.task(name="t", retry=Fixed(0), max_attempts=2)
    async def t(n: int) -> None:
        if n % 10 == 0 and wherry.current().attempt == 1:
            raise ValueError("once")
        done.append(n)

    await app.aenqueue_many([{"type": "t", "payload": {"n": n}} for n in range(900)])
    await app.aenqueue("t", {"n": 1001}, delay=0.001)

    summary = await drained(app, concurrency=8)

    assert sorted(done) == [*range(900), 1001]
    assert summary.answers == {wherry.Reported.DONE: 901, wherry.Reported.REQUEUED: 90}


async def test_an_idle_worker_takes_a_task_at_once(app: wherry.App) -> None:
    @app.task(name="t")
    async def t() -> None:
        pass

    async with at_work(app):
        for _ in range(3):
            id_ = (await app.aenqueue("t")).id
            await finished(app, id_, seconds=5)


async def test_every_queue_is_served_if_asked_for(app: wherry.App) -> None:
    @app.task(name="t")
    async def t() -> None:
        pass

    ids = [(await app.aenqueue("t", queue=name)).id for name in ("a", "b", "%", "ü")]

    await drained(app, queues=["*"])

    assert {(await get(app, id_)).state for id_ in ids} == {State.SUCCEEDED}


async def test_a_stop_lets_what_runs_finish_and_gives_back_the_rest(app: wherry.App) -> None:
    started = asyncio.Event()
    go_on = asyncio.Event()

    @app.task(name="t")
    async def t() -> None:
        started.set()
        await go_on.wait()

    ids = [(await app.aenqueue("t")).id for _ in range(3)]
    async with at_work(app, concurrency=1) as work:
        await started.wait()
        work.cancel()
        asyncio.get_running_loop().call_later(0.2, go_on.set)

    states = [(await get(app, id_)).state for id_ in ids]
    assert sorted(states) == sorted([State.SUCCEEDED, State.QUEUED, State.QUEUED])
    assert {(await get(app, id_)).attempts for id_ in ids} == {0, 1}


async def test_a_worker_drains_goes_on_and_stops_as_it_is_told(
    app: wherry.App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "wherry.worker")
    monkeypatch.setattr(keeper, "_BEAT_WORKER_EVERY", 0.1)
    monkeypatch.setattr(keeper.Keeper, "_pause", lambda _: 0.1)

    @app.task(name="t")
    async def t() -> None:
        pass

    async with at_work(app, name="w1") as work:

        async def listed() -> bool:
            return [w.name for w in await app.alist_workers() if w.alive] == ["w1"]

        await until(listed, what="the worker is listed")
        assert await app.adirect_workers(["w1"], "drain") == 1
        await await_for(lambda: "told to drain" in caplog.text)
        waiting = (await app.aenqueue("t")).id
        assert await app.adirect_workers(["w1"], "none") == 1
        assert (await finished(app, waiting)).state is State.SUCCEEDED
        assert "told to go on" in caplog.text
        assert await app.adirect_workers(["w1"], "stop") == 1
        await await_for(work.done)

    assert work.result().exit_code == 0


async def test_a_failure_is_in_the_history_with_its_traceback(app: wherry.App) -> None:
    @app.task(name="t", retry=Fixed(3600))
    async def t() -> None:
        raise ValueError("naïve \U0001f600")

    id_ = (await app.aenqueue("t")).id
    async with at_work(app):
        task = await failed_once(app, id_)

    [attempt] = task.history
    assert (attempt.error_type, attempt.message) == ("ValueError", "naïve \U0001f600")
    assert "raise ValueError" in (attempt.traceback or "")
    assert (attempt.outcome, attempt.worker) == ("failed", "w1")


async def test_what_waits_for_room_or_for_a_rate_starts_without_a_poll(
    app: wherry.App, database: wherry.App
) -> None:
    app.task(name="t")(lambda: None)
    await database.aset_queue_limits("narrow", max_running=1)
    await database.aset_queue_limits("slow", rate=10, per=1, burst=1)
    made = [await app.aenqueue("t", queue=queue) for queue in ("narrow", "slow") * 4]

    async with at_work(app, queues=["narrow", "slow"]):
        await all_finished(app, [each.id for each in made])


async def test_until_empty_works_off_what_was_set_aside_until_it_came(
    app: wherry.App, database: wherry.App
) -> None:
    """DEP-01. Again and again: somebody sets aside what no worker knows as soon as one has left."""
    done: list[int] = []

    @app.task(name="t")
    async def t(n: int) -> None:
        done.append(n)

    await database.acarry(
        BeatWorker(
            instance=str(uuid.uuid4()),
            name="other",
            host="h",
            pid=1,
            queues=("default",),
            types=("other",),
        )
    )
    for round_ in range(3):
        wanted = range(round_ * 1500, (round_ + 1) * 1500)
        await database.aenqueue_many([{"type": "t", "payload": {"n": n}} for n in wanted])
        parked = 0
        while n := await database.acarry(ParkTasks("default")):
            parked += n

        summary = await drained(app, concurrency=8)

        assert parked == 1500
        assert summary.answers == {wherry.Reported.DONE: 1500}
    assert sorted(done) == list(range(4500))
