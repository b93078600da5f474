"""Working a queue off ends when nothing is due and nothing is in flight, and not before."""

from __future__ import annotations

import asyncio

import pytest

import wherry
from tests.worker.support import drained, get, settings
from wherry.app.work import run_worker
from wherry.domain.retry import Fixed
from wherry.domain.state import State


@pytest.mark.parametrize("listen", [True, False], ids=["listening", "polling"])
async def test_a_retry_that_is_due_at_once_is_not_left_behind(
    app: wherry.App, listen: bool
) -> None:
    """LOST-08: seen by a fresh look after the last report."""

    @app.task(name="flaky", retry=Fixed(0))
    async def flaky() -> None:
        if wherry.current().attempt == 1:
            raise ValueError("once")

    for round_ in range(10):
        ids = [(await app.aenqueue("flaky")).id for _ in range(1 + round_ % 3)]
        await drained(app, concurrency=1 + round_ % 4, listen=listen)
        for id_ in ids:
            task = await get(app, id_)
            assert (task.state, task.attempts) == (State.SUCCEEDED, 2)


async def test_what_the_last_handler_enqueues_is_worked_off_too(app: wherry.App) -> None:
    @app.task(name="counts down")
    async def counts_down(n: int) -> None:
        seen.append(n)
        if n:
            await wherry.current().aenqueue("counts down", {"n": n - 1})

    seen: list[int] = []
    await app.aenqueue("counts down", {"n": 5})

    await drained(app)

    assert seen == [5, 4, 3, 2, 1, 0]


async def test_what_has_become_due_is_worked_off_and_what_is_due_later_is_not(
    app: wherry.App,
) -> None:
    @app.task(name="t")
    async def t() -> None:
        pass

    due = await app.aenqueue("t", delay=0.001)
    later = await app.aenqueue("t", delay=3600)
    await asyncio.sleep(0.002)

    await drained(app)

    assert (await get(app, due.id)).state is State.SUCCEEDED
    assert (await get(app, later.id)).state is State.QUEUED


async def test_types_that_nobody_here_knows_do_not_keep_it(app: wherry.App) -> None:
    @app.task(name="known")
    async def known() -> None:
        pass

    strange = await app.aenqueue("strange")
    mine = await app.aenqueue("known")

    summary = await drained(app)

    assert summary.answers == {wherry.Reported.DONE: 1}
    assert (await get(app, mine.id)).state is State.SUCCEEDED
    task = await get(app, strange.id)
    assert (task.state, task.attempts) == (State.QUEUED, 0)


async def test_an_empty_queue_ends_it_at_once(app: wherry.App) -> None:
    @app.task(name="t")
    async def t() -> None:
        pass

    async with asyncio.timeout(30):
        summary = await drained(app)

    assert (summary.answers, summary.exit_code) == ({}, 0)


async def test_two_workers_share_a_queue_and_do_everything_once(app: wherry.App) -> None:
    done: list[int] = []

    @app.task(name="t")
    async def t(n: int) -> None:
        done.append(n)

    await app.aenqueue_many([{"type": "t", "payload": {"n": n}} for n in range(2000)])

    async with asyncio.TaskGroup() as both:
        for name in ("a", "b"):
            both.create_task(
                run_worker(
                    app,
                    queues=None,
                    settings=settings(concurrency=5),
                    name=name,
                    until_empty=True,
                )
            )

    assert sorted(done) == list(range(2000))
