"""An App of programs that have one event loop after the other, and close it in none of them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import psycopg

import wherry
from tests.conformance.programs import program
from tests.facts import wait_for

Connect = Callable[..., psycopg.Connection[Any]]

FORKED = """
import asyncio, gc, os, sys, warnings
import wherry

warnings.simplefilter("ignore", DeprecationWarning)
app = wherry.App(sys.argv[1])

async def main():
    await app.aenqueue("t")
    sys.stdout.flush()
    if not (child := os.fork()):
        app.close()
        asyncio._set_running_loop(None)
        app.enqueue("t")
        gc.collect()
        app.close()
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    made = await app.aenqueue("t")
    print("ended", ended, "parent", made.created)
    await app.aclose()

asyncio.run(main())
"""


def connections(connection: psycopg.Connection[Any]) -> int:
    rows = connection.execute(
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and application_name = 'wherry app'"
    )
    [[count]] = rows.fetchall()
    assert isinstance(count, int)
    return count


def test_loops_that_are_closed_keep_no_connections(dsn: str, connect: Connect) -> None:
    """As in a web program whose plain views each run a loop of their own for a moment."""
    observer = connect()
    app = wherry.App(dsn)

    # Not even while no garbage is collected.
    gc.disable()
    try:
        for _ in range(5):
            asyncio.run(app.aget_task(1))
        wait_for(lambda: connections(observer) <= 1)
        app.close()
        wait_for(lambda: connections(observer) == 0)
    finally:
        gc.enable()


def test_a_loop_that_runs_keeps_its_own(dsn: str, connect: Connect) -> None:
    observer = connect()
    app = wherry.App(dsn)
    kept = asyncio.new_event_loop()

    kept.run_until_complete(app.aget_task(1))
    asyncio.run(app.aget_task(1))
    asyncio.run(app.aget_task(1))
    app.close()

    assert connections(observer) == 1
    kept.run_until_complete(app.aget_task(1))
    kept.run_until_complete(app.aclose())
    kept.close()
    wait_for(lambda: connections(observer) == 0)


async def test_a_child_forked_out_of_a_loop_leaves_its_parents_pool_alone(dsn: str) -> None:
    """Not a word of tasks that were destroyed while they waited, and no connection is ended."""
    assert (await program(FORKED, dsn)).split("\n") == ["ended 0 parent True", ""]
