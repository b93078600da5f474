"""What a handler left behind cancels its slot when it has long ended: a timer, a watchdog."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from functools import partial

import wherry
from tests.facts import await_for
from tests.worker.support import Slots, at_work, finished
from wherry.domain.state import State


async def test_a_slot_that_is_canceled_while_it_is_idle_goes_on(app: wherry.App) -> None:
    slots = Slots(app, 2)
    left: list[asyncio.Task[None]] = []

    @app.task(name="leaves its task")
    async def leaves_its_task() -> None:
        me = asyncio.current_task()
        assert me is not None
        left.append(me)

    async with at_work(app, concurrency=2) as work:
        for times in (1, 3):
            await finished(app, (await app.aenqueue("leaves its task")).id)
            slot = left[-1]
            for _ in range(times):
                slot.cancel()
            await await_for(partial(_has_noticed, slot))

            assert not slot.done()
            assert not work.done()
            await slots.are_all_used()


async def test_a_timeout_in_a_generator_that_was_left_open_ends_no_worker(app: wherry.App) -> None:
    slots = Slots(app, 1)
    kept: list[AsyncGenerator[int]] = []
    fired: list[asyncio.Timeout] = []

    async def numbers() -> AsyncGenerator[int]:
        async with asyncio.timeout(0.05) as timeout:
            fired.append(timeout)
            while True:
                yield 1

    @app.task(name="takes the first")
    async def takes_the_first() -> None:
        kept.append(numbers())
        async for _ in kept[-1]:
            break

    async with at_work(app, concurrency=1) as work:
        task = await finished(app, (await app.aenqueue("takes the first")).id)
        await await_for(lambda: fired[0].expired())
        await slots.are_all_used()

        assert task.state is State.SUCCEEDED
        assert not work.done()
    await kept[0].aclose()


async def test_a_plain_handler_whose_slot_is_canceled_is_waited_for(app: wherry.App) -> None:
    """Given up, it had run on without a slot, and once more when its lease was over."""
    slots = Slots(app, 1)
    left: list[asyncio.Task[None]] = []
    begun, leave = threading.Event(), threading.Event()

    @app.task(name="leaves its task")
    async def leaves_its_task() -> None:
        me = asyncio.current_task()
        assert me is not None
        left.append(me)

    @app.task(name="plain", store_result=True)
    def plain() -> str:
        begun.set()
        assert leave.wait(40)
        return "done"

    async with at_work(app, concurrency=1):
        await finished(app, (await app.aenqueue("leaves its task")).id)
        id_ = (await app.aenqueue("plain")).id
        await await_for(begun.is_set)
        left[0].cancel()
        left[0].cancel()
        # It ends in the very turn of the loop in which its slot learns that it was canceled.
        leave.set()
        task = await finished(app, id_)
        await slots.are_all_used()

    assert (task.state, task.attempts, task.result) == (State.SUCCEEDED, 1, "done")


def _has_noticed(slot: asyncio.Task[None]) -> bool:
    return slot.done() or not slot.cancelling()
