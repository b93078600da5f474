"""Workers that run beside a test, and the facts to wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg import sql

import wherry
from tests.facts import await_for
from wherry.app.work import run_worker
from wherry.config import WorkerSettings
from wherry.domain.state import State
from wherry.domain.task import Task
from wherry.worker.summary import Summary

T = TypeVar("T")

# The tasks of the loop that a worker owns; none may be left when it has ended.
_PARTS = ("slot-", "intake", "reporter", "sweeper", "maintenance", "listener", "worker")


def settings(
    *, concurrency: int = 4, lease_for: float = 30.0, shutdown: float = 10.0, **more: Any
) -> WorkerSettings:
    """Return a worker's settings; durations are seconds."""
    return replace(
        WorkerSettings(),
        concurrency=concurrency,
        lease_for=timedelta(seconds=lease_for),
        shutdown_timeout=timedelta(seconds=shutdown),
        **more,
    )


@asynccontextmanager
async def at_work(
    app: wherry.App, *, queues: list[str] | None = None, name: str = "w1", **options: Any
) -> AsyncIterator[asyncio.Task[Summary]]:
    """Run a worker inside the block; it is drained, and has left nothing, at the end."""
    before = parts()
    work = asyncio.create_task(
        run_worker(app, queues=queues, settings=settings(**options), name=name), name=f"of {name}"
    )
    try:
        await await_for(lambda: _has_slots(parts() - before) or work.done())
        yield work
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        assert parts() <= before


async def drained(app: wherry.App, *, queues: list[str] | None = None, **options: Any) -> Summary:
    """Run a worker until nothing is due, and return what it did."""
    before = parts()
    summary = await run_worker(
        app, queues=queues, settings=settings(**options), name="w1", until_empty=True
    )
    assert parts() <= before
    return summary


def parts() -> set[asyncio.Task[Any] | threading.Thread]:
    """Return the tasks and threads that workers own now."""
    tasks = {task for task in asyncio.all_tasks() if task.get_name().startswith(_PARTS)}
    return tasks | {thread for thread in threading.enumerate() if thread.name == "wherry-keeper"}


def _has_slots(parts: set[asyncio.Task[Any] | threading.Thread]) -> bool:
    return any(isinstance(part, asyncio.Task) and part.get_name() == "slot-0" for part in parts)


async def until(fact: Callable[[], Awaitable[T | None]], *, what: str, seconds: float = 40) -> T:
    """Return what *fact* gives as soon as that is true."""
    seen: list[T | None] = []

    async def asked() -> bool:
        seen[:] = [await fact()]
        return bool(seen[0])

    await await_for(asked, seconds=seconds, what=what)  # type: ignore[arg-type]
    assert seen[0] is not None
    return seen[0]


async def get(app: wherry.App, id: int) -> Task:
    """Return a task that is there."""
    task = await app.aget_task(id)
    assert task is not None
    return task


async def in_state(app: wherry.App, id: int, state: State) -> Task:
    """Wait until a task is in this state, and return it."""

    async def fact() -> Task | None:
        task = await get(app, id)
        return task if task.state is state else None

    return await until(fact, what=f"task {id} is {state}")


async def finished(app: wherry.App, id: int, *, seconds: float = 40.0) -> Task:
    """Wait until a task has reached a final state, and return it."""

    async def fact() -> Task | None:
        task = await get(app, id)
        return task if task.state.is_final else None

    return await until(fact, what=f"task {id} is finished", seconds=seconds)


async def all_finished(app: wherry.App, ids: Iterable[int], *, seconds: float = 40.0) -> list[Task]:
    """Wait until all of these tasks have reached a final state."""
    return [await finished(app, id_, seconds=seconds) for id_ in ids]


async def failed_once(app: wherry.App, id: int) -> Task:
    """Wait until an attempt of a task is in its history, and return the task."""

    async def fact() -> Task | None:
        task = await get(app, id)
        return task if task.history else None

    return await until(fact, what=f"task {id} has failed")


def set_for_all(connection: psycopg.Connection[Any], **values: str) -> None:
    """Set what every new session of this test's database begins with."""
    for name, value in values.items():
        connection.execute(
            sql.SQL("alter database {} set {} = {}").format(
                sql.Identifier(connection.info.dbname), sql.Identifier(name), sql.Literal(value)
            )
        )


class Slots:
    """Proves that a worker still uses all its slots: so many handlers must run at once."""

    def __init__(self, app: wherry.App, n: int) -> None:
        self._n = n
        self._together = asyncio.Barrier(n)
        self._type = app.task(name="slots.fill", max_attempts=1)(self._fill)

    async def _fill(self) -> None:
        async with asyncio.timeout(20):
            await self._together.wait()

    async def are_all_used(self) -> None:
        ids = [(await self._type.aenqueue()).id for _ in range(self._n)]
        for task in await all_finished(self._type._app, ids):  # type: ignore[arg-type]
            assert task.state is State.SUCCEEDED, task.error
