"""A reporter is ended once, whatever cancels it for a moment before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import wherry
from tests.facts import await_for
from tests.worker.support import at_work
from wherry.worker.reporter import Reporter
from wherry.worker.worker import Worker


async def test_a_reporter_whose_own_time_limit_is_just_up_is_not_taken_for_an_ended_one(
    app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncio.timeout cancels the task for a moment; the reporter goes on, and is ended once."""
    goes_on = asyncio.Event()
    until_it_does: list[asyncio.Task[Any]] = []
    run = Reporter.run

    async def interrupted(self: Reporter) -> None:
        me = asyncio.current_task()
        assert me is not None
        me.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            until_it_does.append(me)
            await goes_on.wait()
        me.uncancel()
        await run(self)

    monkeypatch.setattr(Reporter, "run", interrupted)
    ends = asyncio.Event()
    settle_all = Worker._settle_all

    async def told(self: Worker) -> None:
        ends.set()
        await settle_all(self)

    monkeypatch.setattr(Worker, "_settle_all", told)

    @app.task(name="t")
    async def t() -> None:
        pass

    async with at_work(app) as work:
        await await_for(lambda: until_it_does)
        work.cancel()
        async with asyncio.timeout(60):
            await ends.wait()
        # By now it has looked at the reporter, which is not done and counts as canceled.
        await asyncio.sleep(0)
        goes_on.set()

    assert until_it_does[0].done()
