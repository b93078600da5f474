"""A lease is kept alive while its handler runs, and nothing happens after it is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for
from tests.lateness import late_loop
from tests.worker.fake import make_lease
from tests.worker.support import at_work, drained, finished, get, in_state
from wherry.domain.retry import Fixed
from wherry.domain.state import State
from wherry.errors import LeaseLost
from wherry.tasks.registry import Registry
from wherry.testing import Clock
from wherry.worker.attempt import Runner
from wherry.worker.keeper import Keeper
from wherry.worker.threads import Threads

Connect = Callable[..., psycopg.Connection[Any]]


async def test_a_handler_that_takes_four_leases_long_starts_once(
    app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DBL-01: every beat comes while two thirds of the lease are left, counted from its start."""
    keepers: list[Keeper] = []
    start = Keeper.start

    def remembered(keeper: Keeper) -> None:
        keepers.append(keeper)
        start(keeper)

    monkeypatch.setattr(Keeper, "start", remembered)
    starts: list[int] = []

    @app.task(name="long")
    async def long() -> None:
        starts.append(wherry.current().attempt)
        for _ in range(16):
            await asyncio.sleep(0.5)

    async with at_work(app, name="a", lease_for=2), at_work(app, name="b", lease_for=2):
        task = await finished(app, (await app.aenqueue("long")).id)

    assert starts == [1]
    assert (task.state, task.attempts, task.history) == (State.SUCCEEDED, 1, ())
    # Exactly two thirds on a machine that is never late.
    assert min(keeper.shortest_left for keeper in keepers) > 0


@pytest.mark.parametrize("kind", ["sleeps", "computes"])
async def test_a_handler_that_blocks_the_loop_loses_no_lease_and_is_told_of(
    app: wherry.App, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """DBL-02: heartbeats come from a thread of their own."""
    starts: list[int] = []

    @app.task(name="blocks")
    async def blocks() -> None:
        starts.append(wherry.current().attempt)
        ends_at = time.monotonic() + 5
        while time.monotonic() < ends_at:
            if kind == "sleeps":
                time.sleep(5)  # noqa: ASYNC251 - the very mistake this is about

    async with at_work(app, name="a", lease_for=2), at_work(app, name="b", lease_for=2):
        task = await finished(app, (await app.aenqueue("blocks")).id)

    assert starts == [1]
    assert (task.state, task.attempts, task.history) == (State.SUCCEEDED, 1, ())
    told = [r.getMessage() for r in caplog.records if "loop has been blocked" in r.getMessage()]
    # Once by each of the two workers whose loop it is, with the place.
    assert 1 <= len(told) <= 2
    assert "in blocks" in told[0]


async def test_no_handler_starts_after_the_end_of_its_lease() -> None:
    """L8, by the worker's own clock, whatever the database thinks."""
    app = wherry.App("host=nowhere.invalid")
    started: list[int] = []

    @app.task(name="t")
    async def t() -> None:
        started.append(1)

    threads = Threads(name="unused")
    runner = Runner(app, app.registry, threads, is_ending=lambda: False)

    assert await runner.run(make_lease(seconds=-0.001)) is None
    assert await runner.run(make_lease(seconds=5)) is not None
    assert started == [1]


@pytest.mark.parametrize("completing", [False, True])
async def test_no_handler_takes_another_step_after_the_end_of_its_lease(completing: bool) -> None:
    """L8: the process was frozen, say, and nobody could cancel the handler in time."""
    app = wherry.App("host=nowhere.invalid")
    began, may_go_on = asyncio.Event(), asyncio.Event()
    steps: list[str] = []

    @app.task(name="t")
    async def t() -> None:
        wherry.current().completing = completing
        began.set()
        try:
            await may_go_on.wait()
            steps.append("another step")
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    lease = make_lease(seconds=5)
    runner = Runner(app, app.registry, Threads(name="unused"), is_ending=lambda: False)
    running = asyncio.create_task(runner.run(lease))
    await began.wait()
    lease.deadline = time.monotonic()
    may_go_on.set()
    outcome = await running

    # A transaction that completes the task holds it by the row's lock.
    assert steps == (["another step", "cleaned up"] if completing else ["cleaned up"])
    assert (outcome is None) is not completing


async def test_a_type_that_was_taken_off_meanwhile_is_given_back() -> None:
    app = wherry.App("host=nowhere.invalid")
    runner = Runner(app, Registry(), Threads(name="unused"), is_ending=lambda: False)

    outcome = await runner.run(make_lease())

    assert getattr(outcome, "verdict", None) == "release"


async def test_a_lease_that_cannot_be_extended_ends_its_handler_before_it_runs_out(
    app: wherry.App, connect: Connect
) -> None:
    """The lease table is locked: no heartbeat gets through, and nobody answers that one is lost."""
    ended: list[float] = []

    @app.task(name="hangs", retry=Fixed(0))
    async def hangs() -> None:
        if ended:
            return
        try:
            await asyncio.sleep(600)
        finally:
            ended.append(wherry.current().lease.remaining)

    async with late_loop() as late, at_work(app, lease_for=5):
        id_ = (await app.aenqueue("hangs")).id
        await in_state(app, id_, State.LEASED)
        locker = connect(autocommit=False)
        locker.execute("lock table wherry.lease in access exclusive mode")
        await await_for(lambda: ended)
        locker.rollback()
        task = await finished(app, id_)

    # A tenth of the lease was left to clean up in; a loop that is held up ends it later.
    assert -late.longest < ended[0] <= 0.5
    assert (task.state, task.attempts) == (State.SUCCEEDED, 2)


async def test_completing_refuses_a_lease_that_is_over_by_the_workers_clock(
    app: wherry.App,
) -> None:
    from wherry.worker.context import Context

    context = Context(app, make_lease(seconds=-0.001))

    with pytest.raises(LeaseLost):
        await context.acomplete(tx=object())
    assert not context.completing


async def test_work_after_a_completion_that_has_committed_is_not_interrupted(
    app: wherry.App, dsn: str
) -> None:
    """The task is done, so its lease is gone, and that is no news to its handler."""
    after: list[str] = []

    @app.task(name="completes", store_result=True)
    async def completes() -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await wherry.current().acomplete(tx=connection, result={"by": "transaction"})
        # Several beats find no lease meanwhile.
        await asyncio.sleep(3)
        after.append("mail sent")

    async with at_work(app, lease_for=2):
        id_ = (await app.aenqueue("completes")).id
        await await_for(lambda: after)

    task = await get(app, id_)
    assert (task.state, task.result, task.history) == (State.SUCCEEDED, {"by": "transaction"}, ())


async def test_a_completion_that_was_rolled_back_is_a_failed_attempt(
    app: wherry.App, dsn: str
) -> None:
    """C4: the worker does not complete what the handler wanted to complete with its effects."""

    @app.task(name="completes", retry=Fixed(0))
    async def completes() -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await wherry.current().acomplete(tx=connection)
            if wherry.current().attempt == 1:
                await connection.rollback()

    id_ = (await app.aenqueue("completes")).id

    await drained(app)

    task = await get(app, id_)
    assert (task.state, task.attempts) == (State.SUCCEEDED, 2)
    assert "completion rolled back" in (task.history[0].message or "")


async def test_a_task_given_back_unstarted_starts_afresh(
    app: wherry.App, connect: Connect, clock: Clock
) -> None:
    """DBL-14: nothing of the lease that never began counts for the next one."""
    limits: list[float | None] = []

    @app.task(name="t", timeout=1, max_attempts=1)
    async def t() -> None:
        limits.append(wherry.current().lease.timeout_seconds)

    id_ = (await app.aenqueue("t")).id
    [lease] = await app.alease(worker="other", lease_for=30)
    first = await get(app, id_)
    assert await app.arelease(lease) is wherry.Reported.REQUEUED
    released = await get(app, id_)
    clock.advance(seconds=60)

    async with at_work(app):
        task = await finished(app, id_)

    assert (released.attempts, released.started_at, released.worker) == (0, None, None)
    assert (task.state, task.attempts, task.history) == (State.SUCCEEDED, 1, ())
    assert task.started_at is not None
    assert first.started_at is not None
    assert (task.started_at - first.started_at).total_seconds() >= 60
    assert limits == [1]
