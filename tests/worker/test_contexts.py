"""Handlers share the tasks they are driven in, and are strangers to one another all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

import wherry
from tests.facts import await_for
from tests.worker.support import Slots, at_work, drained, finished, get
from wherry.domain.state import State

HANGS = 600
color: ContextVar[str] = ContextVar("color", default="none")


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
async def test_what_a_handler_sets_in_its_context_is_gone_with_it(
    app: wherry.App, is_async: bool
) -> None:
    """RUN-08."""
    seen: list[str] = []

    if is_async:

        @app.task(name="paints")
        async def paints(name: str) -> None:
            seen.append(color.get())
            color.set(name)
            await asyncio.sleep(0)
            assert color.get() == name
    else:

        @app.task(name="paints")
        def plain(name: str) -> None:
            seen.append(color.get())
            color.set(name)

    for name in ("red", "blue", "green"):
        await app.aenqueue("paints", {"name": name})

    await drained(app, concurrency=1)

    assert seen == ["none"] * 3


async def test_current_is_the_attempt_in_all_that_a_handler_awaits_or_starts(
    app: wherry.App,
) -> None:
    seen: list[tuple[int, int]] = []

    async def ask(n: int) -> None:
        await asyncio.sleep(0)
        seen.append((n, wherry.current().task_id))

    @app.task(name="asks")
    async def asks(n: int) -> None:
        await ask(n)
        await asyncio.gather(ask(n), asyncio.create_task(ask(n)))
        await asyncio.to_thread(lambda: seen.append((n, wherry.current().task_id)))

    ids = [(await app.aenqueue("asks", {"n": n})).id for n in range(8)]

    await drained(app, concurrency=3)

    assert sorted(seen) == sorted((n, ids[n]) for n in range(8) for _ in range(4))
    with pytest.raises(LookupError):
        wherry.current()


async def test_timeouts_groups_and_waits_are_as_in_a_task_of_ones_own(app: wherry.App) -> None:
    seen: list[list[Any]] = []

    @app.task(name="uses asyncio", max_attempts=1)
    async def uses_asyncio() -> None:
        seen.append(await _use_asyncio())

    for _ in range(3):
        await app.aenqueue("uses asyncio")

    await drained(app, concurrency=1)

    alone = await asyncio.create_task(_use_asyncio())
    assert seen == [alone] * 3


async def test_a_timeout_inside_and_one_outside_are_told_apart(app: wherry.App) -> None:
    slots = Slots(app, 2)

    @app.task(name="hangs in a group", timeout=0.1, max_attempts=1)
    async def hangs() -> None:
        async with asyncio.timeout(HANGS), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(HANGS))

    async with at_work(app, concurrency=2):
        task = await finished(app, (await app.aenqueue("hangs in a group")).id)
        await slots.are_all_used()

    assert task.error == "TimeoutError: the attempt took longer than 0.1 s"


@pytest.mark.parametrize("then", ["returns", "waits", "raises", "swallows and returns"])
async def test_a_handler_that_cancels_itself_harms_nobody(app: wherry.App, then: str) -> None:
    slots = Slots(app, 2)

    @app.task(name="cancels itself", max_attempts=1)
    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        for _ in range(3):
            task.cancel()
        if then == "waits":
            await asyncio.sleep(HANGS)
        if then == "raises":
            raise ValueError("after all")
        if then == "swallows and returns":
            try:
                await asyncio.sleep(HANGS)
            except asyncio.CancelledError:
                return

    @app.task(name="next")
    async def next_one() -> None:
        await asyncio.sleep(0.001)

    async with at_work(app, concurrency=2):
        ids = [(await app.aenqueue("cancels itself")).id for _ in range(4)]
        tasks = [await finished(app, id_) for id_ in ids]
        for _ in range(4):
            after = await finished(app, (await app.aenqueue("next")).id)
            assert (after.state, after.attempts) == (State.SUCCEEDED, 1)
        await slots.are_all_used()

    expected = {
        "returns": (State.SUCCEEDED, None),
        # Not as if the worker had been stopping: that would be tried again at once, for ever.
        "waits": (State.DEAD, "asyncio.exceptions.CancelledError"),
        "raises": (State.DEAD, "ValueError"),
        "swallows and returns": (State.SUCCEEDED, None),
    }[then]
    for task in tasks:
        error = task.history[0].error_type if task.history else None
        assert (task.state, error) == expected


async def test_what_a_handler_leaves_running_does_not_hold_its_slot(app: wherry.App) -> None:
    slots = Slots(app, 1)
    left: list[asyncio.Task[Any]] = []

    @app.task(name="leaves")
    async def leaves() -> None:
        left.append(asyncio.create_task(asyncio.sleep(HANGS), name="left by a handler"))

    async with at_work(app, concurrency=1):
        task = await finished(app, (await app.aenqueue("leaves")).id)
        await slots.are_all_used()

    assert task.state is State.SUCCEEDED
    assert not left[0].done()
    left[0].cancel()
    await asyncio.wait(left)


async def test_many_handlers_of_all_kinds_at_once_keep_apart(app: wherry.App) -> None:
    """Fast, slow, failing, canceled and plain ones, through few slots."""

    @app.task(name="mixed", max_attempts=1, timeout=0.2)
    async def mixed(n: int) -> None:
        color.set(str(n))
        match n % 5:
            case 0:
                pass
            case 1:
                await asyncio.sleep(0.001)
            case 2:
                raise ValueError(n)
            case 3:
                async with asyncio.timeout(0.001):
                    await asyncio.sleep(HANGS)
            case _:
                await asyncio.sleep(0.05)
        assert color.get() == str(n)

    @app.task(name="plain", max_attempts=1)
    def plain(n: int) -> None:
        assert color.get() == "none"
        color.set(str(n))

    ids = [(await app.aenqueue("mixed", {"n": n})).id for n in range(100)]
    plain_ids = [(await app.aenqueue("plain", {"n": n})).id for n in range(50)]

    await drained(app, concurrency=7)

    for n, id_ in enumerate(ids):
        task = await get(app, id_)
        wanted = State.DEAD if n % 5 in (2, 3) else State.SUCCEEDED
        assert (n, task.state) == (n, wanted)
    for id_ in plain_ids:
        assert (await get(app, id_)).state is State.SUCCEEDED


async def test_threads_are_made_up_to_one_a_slot_and_end_with_the_worker(
    app: wherry.App,
) -> None:
    import threading

    def of_the_worker() -> list[str]:
        return [t.name for t in threading.enumerate() if t.name.startswith("wherry-w1-")]

    most: list[int] = []

    @app.task(name="plain")
    def plain() -> None:
        most.append(len(of_the_worker()))

    for _ in range(200):
        await app.aenqueue("plain")

    await drained(app, concurrency=3)

    assert max(most) <= 3
    await await_for(lambda: not of_the_worker())


async def _use_asyncio() -> list[Any]:
    task = asyncio.current_task()
    assert task is not None
    seen: list[Any] = []
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(HANGS)
    except TimeoutError:
        seen.append(("timeout", task.cancelling()))
    try:
        await asyncio.wait_for(asyncio.sleep(HANGS), 0.01)
    except TimeoutError:
        seen.append(("wait_for", task.cancelling()))
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(HANGS))
            group.create_task(_fails())
    except* ValueError as caught:
        # Some versions of Python leave a cancellation counted here.
        seen.append(("group", len(caught.exceptions), task.cancelling()))
    async with asyncio.timeout(HANGS), asyncio.TaskGroup() as group:
        inner = group.create_task(asyncio.sleep(0.01, "slept"))
    seen.append(inner.result())
    async with asyncio.Lock(), asyncio.Condition() as condition:
        seen.append(condition)
    seen.append([n async for n in _counts()])
    try:
        async with asyncio.timeout(0.01):
            await asyncio.shield(asyncio.sleep(0.02))
    except TimeoutError:
        seen.append("shield")
    return seen


async def _fails() -> None:
    raise ValueError


async def _counts() -> AsyncIterator[int]:
    for n in range(3):
        await asyncio.sleep(0)
        yield n
