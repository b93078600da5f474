"""Apps behind a pooler that gives each transaction another session."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import psycopg

import wherry
from tests.doctor.pooler import Pooler
from tests.worker.support import at_work, finished
from wherry.domain.state import State
from wherry.migrations import migrate


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


async def test_where_no_settings_pass_two_schemas_share_a_session_and_leave_it_as_it_was(
    dsn: str,
) -> None:
    """PGB-04: one session for two Apps with their workers, and none of our settings let through."""
    await asyncio.to_thread(migrate, dsn, schema='Other "one"')

    with Pooler(dsn, most=1, waits=True, lets_settings_pass=False) as pooler:
        async with AsyncExitStack() as stack, asyncio.timeout(120):
            for schema in ("wherry", 'Other "one"'):
                app = await stack.enter_async_context(wherry.App(pooler.pooled, schema=schema))
                app.task(name="t")(_nothing)
                made = await app.aenqueue_many([{"type": "t", "key": f"{n}"} for n in range(20)])
                async with at_work(app, listen=False):
                    for each in made:
                        assert (await finished(app, each.id)).state is State.SUCCEEDED
                assert (await app.acount_tasks()).tasks == 20
        with psycopg.connect(pooler.pooled, autocommit=True) as shared:
            left = shared.execute(
                "select name, setting from pg_settings where source = 'session'"
            ).fetchall()
            path = shared.execute("show search_path").fetchone()

    assert left == []
    assert path == ('"$user", public',)


async def _nothing() -> None:
    pass
