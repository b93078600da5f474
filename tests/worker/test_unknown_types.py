"""Tasks of types that a worker does not know wait for one that does, and stand in nobody's way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg

import wherry
from tests.facts import await_for
from tests.worker.support import at_work, finished, get
from wherry.commands.leases import LeaseTasks
from wherry.commands.maintenance import ParkTasks
from wherry.domain.state import State
from wherry.transport.base import run

Connect = Callable[..., psycopg.Connection[Any]]


def states(connection: psycopg.Connection[Any]) -> dict[str, int]:
    return dict(connection.execute("select state, count(*) from wherry.live group by 1").fetchall())


async def test_unknown_types_are_parked_and_come_back_with_a_worker_that_knows_them(
    app: wherry.App, dsn: str, connect: Connect
) -> None:
    """DEP-01, DEP-03."""
    newer = wherry.App(dsn)

    @app.task(name="known")
    async def known() -> None:
        pass

    @newer.task(name="strange")
    async def strange() -> None:
        pass

    ids = [(await app.aenqueue("strange")).id for _ in range(5)]
    connection = connect()
    async with at_work(app, name="older", look_every=timedelta(seconds=0.1)):
        # Whoever parks waits a little for workers that start at the same time.
        await await_for(lambda: states(connection) == {"parked": 5}, seconds=15)
        # They stand in nobody's way, and people see them as queued.
        assert (await finished(app, (await app.aenqueue("known")).id)).attempts == 1
        assert (await get(app, ids[0])).state is State.QUEUED

        async with at_work(newer, name="newer"):
            for id_ in ids:
                task = await finished(newer, id_)
                assert (task.state, task.attempts) == (State.SUCCEEDED, 1)
    await newer.aclose()


async def test_a_type_that_is_unknown_here_and_known_elsewhere_is_left_where_it_is(
    app: wherry.App, dsn: str, connect: Connect
) -> None:
    """DEP-08."""
    other = wherry.App(dsn)

    @app.task(name="ours")
    async def ours() -> None:
        pass

    @other.task(name="theirs")
    async def theirs() -> None:
        pass

    connection = connect()
    async with at_work(other, name="other", queues=["elsewhere"]), at_work(app, name="w1"):
        theirs_id = (await app.aenqueue("theirs")).id
        await finished(app, (await app.aenqueue("ours")).id)
        parked = run(connection, ParkTasks("default"), schema="wherry")

    assert parked == 0
    assert (await get(app, theirs_id)).attempts == 0
    await other.aclose()


async def test_a_look_for_unknown_types_keeps_no_known_one_from_being_leased(
    app: wherry.App, connect: Connect
) -> None:
    @app.task(name="known")
    async def known() -> None:
        pass

    async with at_work(app, queues=["elsewhere"]):
        ids = [(await app.aenqueue("known")).id for _ in range(3)]
        strange = (await app.aenqueue("strange")).id
        parker, leaser = connect(autocommit=False), connect()
        parked = run(parker, ParkTasks("default"), schema="wherry")
        # The look's transaction is still open.
        leases = run(leaser, LeaseTasks(queue="default", worker="w", limit=9), schema="wherry")
        parker.commit()

    assert parked == 1
    assert [lease.id for lease in leases] == ids
    assert strange not in ids
