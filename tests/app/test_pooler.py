"""Apps behind a pooler that gives each transaction another session."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import wherry
from tests.doctor.pooler import Pooler


async def test_apps_that_share_sessions_run_no_statement_of_one_another(
    dsn: str, app: wherry.App
) -> None:
    """PGB-01: what one has prepared is there for another, and never in another's place."""

    async def use(behind: wherry.App, n: int) -> int:
        """Do a little of everything, often enough that drivers prepare it."""
        done = 0
        for i in range(8):
            made = await behind.aenqueue("t", {"n": i}, key=f"{n}-{i}" if i % 2 else None)
            found = await behind.aget_task(made.id)
            assert found is not None
            assert found.payload == {"n": i}
            await behind.alist_queues()
            await behind.acount_tasks(queue="default")
            for lease in await behind.alease(worker=f"w{n}", max_tasks=2):
                done += await behind.acomplete(lease) is wherry.Reported.DONE
        return done

    with Pooler(dsn) as pooler:
        async with AsyncExitStack() as stack, asyncio.timeout(60):
            apps = [await stack.enter_async_context(wherry.App(pooler.pooled)) for _ in range(4)]
            done = await asyncio.gather(*(use(each, n) for n, each in enumerate(apps)))

    assert sum(done) == (await app.acount_tasks(state="succeeded")).tasks
    assert (await app.acount_tasks()).tasks == 32
