"""A worker that is told to drain, to go on or to stop does so at its next beat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import wherry
from tests.facts import await_for
from tests.worker.support import at_work, finished, get, in_state, until
from wherry.domain.state import State
from wherry.domain.worker import Directive
from wherry.worker import keeper as keeper_module

# The keeper looks six times in a lease, so a short one hears of directives soon.
LEASE_FOR = 1.0


@pytest.fixture(autouse=True)
def frequent_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beat for the worker in each of the keeper's passes."""
    monkeypatch.setattr(keeper_module, "_BEAT_WORKER_EVERY", 0.0)


@pytest.fixture
def gate(app: wherry.App) -> asyncio.Event:
    """Opens for the handlers of the type `waits`; `quick` has nothing to wait for."""
    gate = asyncio.Event()

    @app.task(name="waits")
    async def waits() -> None:
        await gate.wait()

    @app.task(name="quick")
    async def quick() -> None:
        pass

    return gate


def said(caplog: pytest.LogCaptureFixture, text: str) -> Callable[[], bool]:
    return lambda: any(text in record.getMessage() for record in caplog.records)


async def test_a_draining_worker_finishes_what_runs_and_leases_nothing_until_it_is_resumed(
    app: wherry.App, gate: asyncio.Event, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "wherry.worker")
    async with at_work(app, concurrency=2, lease_for=LEASE_FOR) as work:
        running = (await app.aenqueue("waits")).id
        await in_state(app, running, State.LEASED)

        await app.adirect_workers(["w1"], "drain", reason="a new disk")

        await await_for(said(caplog, "told to drain"))
        waiting = (await app.aenqueue("quick")).id
        gate.set()
        assert (await finished(app, running)).state is State.SUCCEEDED
        # A beat that came after all of that: had it been leased at all, it would be by now.
        await _beaten(app)
        await _beaten(app)
        assert (await get(app, waiting)).attempts == 0
        assert not work.done()

        await app.adirect_workers(["w1"], "none")

        assert (await finished(app, waiting)).state is State.SUCCEEDED


async def test_a_draining_worker_takes_nothing_from_what_it_runs(
    app: wherry.App, gate: asyncio.Event
) -> None:
    ids = [(await app.aenqueue("waits")).id for _ in range(3)]
    async with at_work(app, concurrency=3, lease_for=LEASE_FOR):
        for id_ in ids:
            await in_state(app, id_, State.LEASED)

        await app.adirect_workers(["w1"], "drain")
        await _told(app, Directive.DRAIN)

        assert {(await get(app, id_)).state for id_ in ids} == {State.LEASED}
        gate.set()
        for id_ in ids:
            assert (await finished(app, id_)).attempts == 1


async def test_a_worker_that_is_told_to_stop_ends_as_after_a_signal(
    app: wherry.App, gate: asyncio.Event
) -> None:
    async with at_work(app, concurrency=2, lease_for=LEASE_FOR) as work:
        running = (await app.aenqueue("waits")).id
        await in_state(app, running, State.LEASED)

        await app.adirect_workers(["w1"], "stop")

        await until(lambda: _is_stopping(app), what="the worker was told to stop")
        gate.set()
        async with asyncio.timeout(30):
            summary = await work
        assert summary.exit_code == 0
        assert (await get(app, running)).state is State.SUCCEEDED
        assert await app.alist_workers() == []


async def test_a_draining_worker_can_be_told_to_stop(
    app: wherry.App, gate: asyncio.Event, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "wherry.worker")
    async with at_work(app, lease_for=LEASE_FOR) as work:
        await app.adirect_workers(["w1"], "drain")
        await await_for(said(caplog, "told to drain"))

        await app.adirect_workers(["w1"], "stop")

        async with asyncio.timeout(30):
            assert (await work).exit_code == 0


async def _seen(app: wherry.App) -> Any:
    [seen] = await app.alist_workers()
    return seen


async def _beaten(app: wherry.App) -> None:
    """Return after the worker's next beat."""
    before = (await _seen(app)).beat_at

    async def later() -> bool:
        return bool((await _seen(app)).beat_at > before)

    await until(later, what="the worker has beaten again")


async def _told(app: wherry.App, directive: Directive) -> None:
    """Return when the worker has certainly heard what it was told."""
    assert (await _seen(app)).directive is directive
    await _beaten(app)
    await _beaten(app)


async def _is_stopping(app: wherry.App) -> bool:
    await _told(app, Directive.STOP)
    return True
