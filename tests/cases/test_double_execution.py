"""What made others run a task twice, or recover none, when something beside it went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for
from tests.pg.support import Session, spec
from tests.worker.support import at_work, finished
from wherry.domain.state import State
from wherry.testing import Clock
from wherry.worker import keeper

Connect = Callable[..., psycopg.Connection[Any]]


def test_a_lost_task_whose_key_another_has_meanwhile_stops_no_recovery(
    dsn: str, clock: Clock
) -> None:
    """DBL-12: it goes back to the queue beside the other one, and so do the 100 around it."""
    session = Session(dsn)
    session.enqueue_many(*(spec(priority=1) for _ in range(50)))
    lost = session.enqueue(key="k", priority=1)
    session.enqueue_many(*(spec(priority=1) for _ in range(50)))
    leases = session.lease(101)
    # No call of ours gives a key away while its task lives.
    session.rows("delete from wherry.key")
    other = session.enqueue(key="k")
    clock.advance(seconds=31)

    reaped = session.reap(batch=1000)

    assert sorted(reaped.queued) == sorted(lease.id for lease in leases)
    assert session.value("select count(*) from wherry.lease") == 0
    assert len(session.reap()) == 0
    clock.advance(hours=2)
    session.promote()
    again = session.lease(200)
    assert {lost, other} < {lease.id for lease in again}
    session.complete(*again)
    assert session.task(lost).state is session.task(other).state is State.SUCCEEDED
    session.close()


async def test_a_worker_that_is_cut_from_new_work_keeps_what_it_has(
    app: wherry.App, connect: Connect
) -> None:
    """DBL-17: heartbeats go another way than tasks and wake-ups do."""
    starts: list[int] = []

    @app.task(name="long")
    async def long() -> None:
        starts.append(wherry.current().attempt)
        await asyncio.sleep(5)

    connection = connect()
    cuts = 0
    async with at_work(app, name="a", lease_for=2), at_work(app, name="b", lease_for=2):
        id_ = (await app.aenqueue("long")).id
        await await_for(lambda: starts)
        running = asyncio.create_task(finished(app, id_))
        while not running.done():
            cuts += len(
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database()"
                    "   and application_name ~ '^wherry (listener|leasing|maintenance)'"
                ).fetchall()
            )
            await asyncio.wait([running], timeout=0.1)
        task = await running

    assert cuts > 5
    assert starts == [1]
    assert (task.state, task.attempts, task.history) == (State.SUCCEEDED, 1, ())


async def test_an_idle_worker_goes_on_telling_that_it_is_there(
    app: wherry.App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DBL-17: also when it holds no lease; it is known by the same row all the time."""
    monkeypatch.setattr(keeper, "_BEAT_WORKER_EVERY", 0.05)

    @app.task(name="t")
    async def t() -> None:
        pass

    connection = connect()
    seen: set[tuple[Any, ...]] = set()

    def look() -> bool:
        seen.update(
            connection.execute("select instance, started_at, beat_at from wherry.worker").fetchall()
        )
        return len(seen) > 5

    async with at_work(app, lease_for=1):
        await await_for(look)

    assert len({row[:2] for row in seen}) == 1
