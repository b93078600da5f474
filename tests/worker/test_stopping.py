"""Handlers that are told to stop: by their timeout, a cancel, a lost lease, or a shutdown.

Whatever they do about it, the slot is free again: at the end of each test all of them are used.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

import wherry
from tests.facts import await_for
from tests.lateness import late_machine
from tests.worker.support import Slots, at_work, finished, get, in_state
from wherry.domain.retry import Fixed
from wherry.domain.state import State
from wherry.domain.task import Canceled
from wherry.testing import Clock

HANGS = 600


async def test_an_attempt_that_takes_too_long_is_canceled_and_fails(app: wherry.App) -> None:
    slots = Slots(app, 2)
    cleaned: list[str] = []

    @app.task(name="hangs", timeout=0.1, max_attempts=1)
    async def hangs() -> None:
        try:
            await asyncio.sleep(HANGS)
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("up")

    async with at_work(app, concurrency=2):
        task = await finished(app, (await app.aenqueue("hangs")).id)
        await slots.are_all_used()

    assert task.state is State.DEAD
    assert task.error == "TimeoutError: the attempt took longer than 0.1 s"
    # Where it was when its time was up.
    assert "await asyncio.sleep(HANGS)" in (task.history[0].traceback or "")
    assert cleaned == ["up"]


async def test_a_handler_that_returns_in_spite_of_its_timeout_has_completed(
    app: wherry.App,
) -> None:
    slots = Slots(app, 2)

    @app.task(name="late", timeout=0.1, store_result=True)
    async def late() -> str:
        try:
            await asyncio.sleep(HANGS)
        except asyncio.CancelledError:
            return "done all the same"
        return "not canceled"

    async with at_work(app, concurrency=2):
        task = await finished(app, (await app.aenqueue("late")).id)
        await slots.are_all_used()

    assert (task.state, task.result) == (State.SUCCEEDED, "done all the same")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("swallowed", [asyncio.CancelledError, BaseException])
async def test_a_handler_that_ignores_its_end_is_closed(
    app: wherry.App, caplog: pytest.LogCaptureFixture, swallowed: type[BaseException]
) -> None:
    """HND-06, SHUT-12: it holds no slot, and the next attempt does not run beside it."""
    slots = Slots(app, 2)
    alive: list[int] = []

    @app.task(name="stubborn", timeout=0.1, retry=Fixed(0), max_attempts=2)
    async def stubborn() -> None:
        attempt = wherry.current().attempt
        if attempt == 2:
            return
        while True:
            try:
                alive.append(attempt)
                await asyncio.sleep(HANGS)
            except swallowed:
                pass

    async with at_work(app, concurrency=2):
        id_ = (await app.aenqueue("stubborn")).id
        task = await finished(app, id_)
        await slots.are_all_used()

    assert (task.state, task.attempts) == (State.SUCCEEDED, 2)
    assert task.history[0].error_type == "TimeoutError"
    assert alive[:2] == [1, 1]
    stuck = [r.getMessage() for r in caplog.records if "is stuck" in r.getMessage()]
    assert len(stuck) == 1
    assert f"task {id_} " in stuck[0]


async def test_a_lost_lease_cancels_its_handler_within_a_beat_and_its_report_is_dropped(
    app: wherry.App, clock: Clock
) -> None:
    """DBL-09."""
    slots = Slots(app, 2)
    seen: list[tuple[int, str]] = []

    @app.task(name="hangs", retry=Fixed(0))
    async def hangs() -> None:
        attempt = wherry.current().attempt
        seen.append((attempt, "began"))
        if attempt == 1:
            try:
                await asyncio.sleep(HANGS)
            except asyncio.CancelledError:
                seen.append((attempt, "canceled"))
                raise

    async with at_work(app, concurrency=2, lease_for=9):
        id_ = (await app.aenqueue("hangs")).id
        await await_for(lambda: seen)
        clock.advance(seconds=10)
        # Well before the 9 s after which it would notice by its own clock.
        await await_for(lambda: (1, "canceled") in seen, seconds=6)
        task = await finished(app, id_)
        await slots.are_all_used()

    assert (task.state, task.attempts) == (State.SUCCEEDED, 2)
    assert [attempt.outcome for attempt in task.history] == ["lost"]


async def test_a_plain_handler_learns_of_its_lost_lease_by_its_flag(
    app: wherry.App, clock: Clock
) -> None:
    """DBL-06, DBL-09: what it raises afterwards changes nothing, nor does anything by its lease."""
    slots = Slots(app, 3)
    leases: list[Any] = []
    told: list[bool] = []
    may_end = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task(name="zombie", retry=Fixed(0), max_attempts=2)
    def zombie() -> None:
        context = wherry.current()
        leases.append(context.lease)
        if context.attempt == 1:
            told.append(context.wait_cancelled(20))
            asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result(20)
        raise ValueError(f"attempt {context.attempt}")

    async with at_work(app, concurrency=3, lease_for=3):
        id_ = (await app.aenqueue("zombie")).id
        await await_for(lambda: leases)
        clock.advance(seconds=4)
        dead = await finished(app, id_)
        await await_for(lambda: told == [True])
        late = [
            await app.acomplete(leases[0]),
            await app.afail(leases[0], "late"),
            (await app.aheartbeat([leases[0]]))[0],
        ]
        may_end.set()
        await slots.are_all_used()

    assert late == [wherry.Reported.LOST] * 3
    assert (dead.state, dead.attempts) == (State.DEAD, 2)
    assert await get(app, id_) == dead
    assert dead.error == "ValueError: attempt 2"
    assert [attempt.outcome for attempt in dead.history] == ["lost", "failed"]


@pytest.mark.parametrize(("concurrency", "listen"), [(2, True), (1, False)])
async def test_a_cancel_reaches_an_async_handler_within_a_beat(
    app: wherry.App, concurrency: int, listen: bool
) -> None:
    """CAN-02: also where every slot is taken, and nobody is notified of anything."""
    slots = Slots(app, concurrency)
    began = asyncio.Event()

    @app.task(name="hangs")
    async def hangs() -> None:
        began.set()
        await asyncio.sleep(HANGS)

    with late_machine() as machine:
        async with at_work(app, concurrency=concurrency, lease_for=3, listen=listen):
            id_ = (await app.aenqueue("hangs")).id
            await began.wait()
            answer = await app.acancel(id_)
            canceled_at = time.monotonic()
            task = await finished(app, id_)
            took = time.monotonic() - canceled_at
            await slots.are_all_used()

    # A machine that is late is late at each step on the way.
    assert took < 3 + 20 * machine.longest
    assert answer is Canceled.REQUESTED
    assert task.state is State.CANCELED
    assert task.reason == "canceled while it ran"


async def test_a_canceled_plain_handler_that_completes_first_has_completed(
    app: wherry.App,
) -> None:
    """DBL-07: a cancel of a running task is a request, and the owner's complete stands."""

    @app.task(name="ignores", store_result=True)
    def ignores() -> str:
        assert wherry.current().wait_cancelled(20)
        return "ok"

    async with at_work(app, concurrency=2, lease_for=3):
        id_ = (await app.aenqueue("ignores")).id
        await in_state(app, id_, State.LEASED)
        await app.acancel(id_)
        task = await finished(app, id_)

    assert (task.state, task.result) == (State.SUCCEEDED, "ok")


async def test_a_result_that_comes_after_another_worker_has_finished_is_dropped(
    app: wherry.App, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """DBL-07: the first final state wins."""
    may_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Whether it has heard by then that its lease is lost, or is told so in answer to its report.
    dropped = ("its result is dropped", "the report came too late")

    @app.task(name="twice", store_result=True, retry=Fixed(0))
    def twice() -> str:
        attempt = wherry.current().attempt
        if attempt == 1:
            asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result(20)
        return f"by attempt {attempt}"

    async with at_work(app, name="slow", lease_for=3), at_work(app, name="other", lease_for=3):
        id_ = (await app.aenqueue("twice")).id
        await in_state(app, id_, State.LEASED)
        clock.advance(seconds=4)
        first = await finished(app, id_)
        may_end.set()
        await await_for(lambda: any(text in caplog.text for text in dropped))

    assert first.result == "by attempt 2"
    assert await get(app, id_) == first


async def test_a_plain_handler_that_outlives_its_timeout_keeps_slot_and_lease(
    app: wherry.App, caplog: pytest.LogCaptureFixture
) -> None:
    """HND-05: its thread cannot be stopped, so nobody else may start the task beside it."""
    may_end = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task(name="stuck", timeout=0.1, max_attempts=1)
    def stuck() -> None:
        asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result(30)
        assert wherry.current().cancelled

    @app.task(name="quick")
    async def quick() -> None:
        pass

    async with at_work(app, concurrency=2, lease_for=1):
        id_ = (await app.aenqueue("stuck")).id
        await await_for(lambda: f"task {id_} is stuck" in caplog.text)
        # Twice its lease has passed by now.
        assert (await get(app, id_)).state is State.LEASED
        # The other slot still works.
        await finished(app, (await app.aenqueue("quick")).id)
        may_end.set()
        task = await finished(app, id_)

    assert (task.state, task.attempts) == (State.SUCCEEDED, 1)
    [warning] = [r.getMessage() for r in caplog.records if "is stuck" in r.getMessage()]
    # A stack tells where.
    assert "run_coroutine_threadsafe(may_end.wait(), loop)" in warning


async def test_a_shutdown_gives_back_what_it_interrupts_and_no_attempt_is_spent(
    app: wherry.App, caplog: pytest.LogCaptureFixture
) -> None:
    """SHUT-01, SHUT-08."""
    began = asyncio.Event()
    cleaned: list[str] = []

    @app.task(name="long", max_attempts=1)
    async def long() -> None:
        began.set()
        try:
            await asyncio.sleep(0 if cleaned else HANGS)
        finally:
            cleaned.append("up")

    id_ = (await app.aenqueue("long")).id
    async with at_work(app, shutdown=0.1):
        await began.wait()
    task = await get(app, id_)

    assert (task.state, task.attempts, task.history) == (State.QUEUED, 0, ())
    assert cleaned == ["up"]
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []

    async with at_work(app):
        again = await finished(app, id_)
    assert (again.state, again.attempts) == (State.SUCCEEDED, 1)


async def test_a_shutdown_lets_a_handler_finish_in_the_time_there_is(app: wherry.App) -> None:
    """DBL-04: its lease is kept meanwhile, and nobody else starts it."""
    starts: list[int] = []

    @app.task(name="long")
    async def long() -> None:
        starts.append(1)
        await asyncio.sleep(5)

    id_ = (await app.aenqueue("long")).id
    async with at_work(app, name="other", queues=["elsewhere"], lease_for=2):
        async with at_work(app, name="leaving", lease_for=2, shutdown=20):
            await await_for(lambda: starts)
        task = await get(app, id_)

    assert (task.state, task.attempts, task.history) == (State.SUCCEEDED, 1, ())
    assert starts == [1]


async def test_what_was_canceled_while_it_waited_for_a_slot_never_starts(app: wherry.App) -> None:
    started: list[int] = []

    @app.task(name="counts")
    async def counts(n: int) -> None:
        started.append(n)

    id_ = (await app.aenqueue("counts", {"n": 1})).id
    assert await app.acancel(id_) is Canceled.CANCELED
    other = (await app.aenqueue("counts", {"n": 2})).id

    async with at_work(app):
        await finished(app, other)

    assert started == [2]


@pytest.mark.parametrize("why", ["timeout", "cancel", "shutdown"])
async def test_a_plain_handler_that_cancels_itself_when_told_is_judged_as_an_async_one(
    app: wherry.App, why: str
) -> None:
    timeout = 0.1 if why == "timeout" else None

    @app.task(name="obeys", timeout=timeout, max_attempts=1)
    def obeys() -> None:
        assert wherry.current().wait_cancelled(20)
        raise asyncio.CancelledError

    id_ = (await app.aenqueue("obeys")).id
    async with at_work(app, lease_for=5, shutdown=0 if why == "shutdown" else 10):
        await in_state(app, id_, State.LEASED)
        if why == "cancel":
            await app.acancel(id_)
        if why != "shutdown":
            await finished(app, id_)
    task = await get(app, id_)

    expected = {
        "timeout": (State.DEAD, "TimeoutError: the attempt took longer than 0.1 s"),
        "cancel": (State.CANCELED, "wherry.signals.Cancel: canceled while it ran"),
        "shutdown": (State.QUEUED, None),
    }[why]
    assert (task.state, task.error) == expected
    assert task.attempts == (0 if why == "shutdown" else 1)
