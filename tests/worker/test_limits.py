"""Workers keep the limits of queues, and start what waits for room as soon as there is some."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import wherry
from tests.facts import await_for
from tests.worker.support import all_finished, at_work, drained, finished
from wherry.domain.lease import Reported
from wherry.domain.retry import Fixed
from wherry.domain.state import State
from wherry.testing import Clock

NEVER = timedelta(seconds=600)
# What starts at all was not found by a poll.
WITHOUT_POLLS: dict[str, Any] = {"poll_every": NEVER, "poll_every_when_listening": NEVER}


async def test_a_task_that_waits_for_room_starts_when_there_is_some(app: wherry.App) -> None:
    """LOST-12: a task comes at any moment beside the end of the one that has the only place."""
    ends: list[asyncio.Event] = []

    @app.task(name="t")
    async def t() -> None:
        ends.append(asyncio.Event())
        await ends[-1].wait()

    await app.aset_queue_limits("default", max_running=1)
    async with at_work(app, concurrency=4, **WITHOUT_POLLS):
        made = [await app.aenqueue("t")]
        for n in range(1, 21):
            await await_for(lambda n=n: len(ends) == n)  # type: ignore[misc]
            async with asyncio.TaskGroup() as group:
                coming = group.create_task(app.aenqueue("t"))
                ends[-1].set()
            made.append(coming.result())
        await await_for(lambda: len(ends) == len(made))
        ends[-1].set()
        await all_finished(app, [each.id for each in made])


async def test_what_a_dead_worker_held_is_recovered_where_it_takes_all_the_room(
    app: wherry.App, clock: Clock
) -> None:
    """PRI-06: what ran out counts until it is taken back, and no limit keeps it from that."""

    @app.task(name="t", retry=Fixed(0))
    async def t() -> None:
        pass

    await app.aset_queue_limits("default", max_running=2)
    held, later = await t.aenqueue_many([{}] * 2), await t.aenqueue_many([{}] * 3)
    assert len(await app.alease(worker="dead", max_tasks=9, lease_for=5)) == 2
    clock.advance(seconds=6)

    async with at_work(app, **WITHOUT_POLLS):
        recovered = await all_finished(app, [each.id for each in held])
        others = await all_finished(app, [each.id for each in later])

    assert {(task.state, task.attempts) for task in recovered} == {(State.SUCCEEDED, 2)}
    assert {(task.state, task.attempts) for task in others} == {(State.SUCCEEDED, 1)}


async def test_no_more_handlers_run_at_once_than_may(app: wherry.App) -> None:
    running = most = 0

    @app.task(name="t")
    async def t() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    await app.aset_queue_limits("default", max_running=3)
    made = [await app.aenqueue("t") for _ in range(60)]
    async with (
        at_work(app, name="a", concurrency=5, **WITHOUT_POLLS),
        at_work(app, name="b", concurrency=5, **WITHOUT_POLLS),
    ):
        await all_finished(app, [each.id for each in made])

    assert most == 3


async def test_what_waits_for_its_rate_starts_without_a_poll(app: wherry.App) -> None:
    app.task(name="t")(lambda: None)
    await app.aset_queue_limits("default", rate=10, per=1, burst=1)
    made = [await app.aenqueue("t") for _ in range(5)]

    async with at_work(app, **WITHOUT_POLLS):
        tasks = await all_finished(app, [each.id for each in made])

    began = sorted(task.started_at for task in tasks if task.started_at)
    assert began[-1] - began[0] >= timedelta(seconds=0.4)


async def test_other_queues_go_on_while_one_is_full(app: wherry.App) -> None:
    end = asyncio.Event()

    @app.task(name="t")
    async def t(wait: bool) -> None:
        if wait:
            await end.wait()

    await app.aset_queue_limits("narrow", max_running=1)
    waits = [await app.aenqueue("t", {"wait": True}, queue="narrow") for _ in range(3)]
    async with at_work(app, queues=["narrow", "default"], **WITHOUT_POLLS):
        for _ in range(3):
            made = await app.aenqueue("t", {"wait": False})
            assert (await finished(app, made.id)).state is State.SUCCEEDED
        end.set()
        await all_finished(app, [each.id for each in waits])


async def test_limits_that_are_set_while_it_waits_are_noticed_at_once(app: wherry.App) -> None:
    app.task(name="t")(lambda: None)
    async with at_work(app, **WITHOUT_POLLS):
        assert (await finished(app, (await app.aenqueue("t")).id)).state is State.SUCCEEDED
        await app.aset_queue_limits("default", rate=10, per=1, burst=1)

        made = [await app.aenqueue("t") for _ in range(4)]

        await all_finished(app, [each.id for each in made])


async def test_until_empty_waits_for_the_rate(app: wherry.App) -> None:
    app.task(name="t")(lambda: None)
    await app.aset_queue_limits("default", rate=10, per=1, burst=1)
    for _ in range(4):
        await app.aenqueue("t")

    summary = await drained(app)

    assert summary.answers[Reported.DONE] == 4
