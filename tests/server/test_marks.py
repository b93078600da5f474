"""Of which queues a server is notified: of those that are waited for, while tasks come seldom."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg

import wherry
from tests.facts import await_for
from wherry.server.caller import ANYBODY
from wherry.server.running import Running

Connect = Callable[..., psycopg.Connection[Any]]


async def test_a_queue_that_is_kept_up_with_has_no_mark_until_it_is_quiet(
    running: Running, app: wherry.App, connect: Connect
) -> None:
    """Between any two tasks somebody waits. Each of them is found, once, with a mark or without."""
    connection = connect()
    enough, ended = asyncio.Event(), asyncio.Event()
    made: list[int] = []
    leased: Counter[int] = Counter()

    async def produce() -> None:
        while not enough.is_set():
            made.append((await app.aenqueue("t")).id)

    async def take(n: int) -> None:
        while not ended.is_set():
            answer = await running.service.lease(
                ANYBODY, worker=f"worker-{n}", wait=1, max_tasks=100
            )
            leased.update(lease.id for lease in answer.leases)

    def is_marked() -> bool:
        [[there]] = connection.execute("select exists (select from wherry.waiting)").fetchall()
        return bool(there)

    takers = [asyncio.create_task(take(n)) for n in range(2)]
    for _ in range(2):
        await await_for(lambda: running.desk.hears(["default"]))
        producers = [asyncio.create_task(produce()) for _ in range(8)]
        await await_for(lambda: not is_marked(), seconds=30)
        enough.set()
        await asyncio.gather(*producers)
        await await_for(lambda: len(leased) == len(made))
        enough.clear()
    ended.set()
    await asyncio.gather(*takers)

    assert leased == Counter(made)


async def test_marks_of_a_busy_queue_and_a_quiet_one_are_apart(
    running: Running, connect: Connect
) -> None:
    connection = connect()

    def marked() -> set[str]:
        return {queue for (queue,) in connection.execute("select queue from wherry.waiting")}

    polls = [
        asyncio.create_task(running.service.lease(ANYBODY, worker=queue, queues=[queue], wait=60))
        for queue in ("busy", "quiet")
    ]
    await await_for(lambda: running.desk.hears(["busy", "quiet"]))

    def is_apart() -> bool:
        for _ in range(20):
            running.desk.heard("busy")
        return marked() == {"quiet"}

    await await_for(is_apart, seconds=30)

    # Nothing was there, and now it has been quiet for a while.
    await await_for(lambda: running.desk.hears(["busy", "quiet"]))
    running.desk.drain()
    await asyncio.gather(*polls)
