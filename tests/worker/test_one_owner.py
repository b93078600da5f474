"""A task has one owner at a time, from the very moment it is leased."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import wherry
from tests.worker.support import at_work, set_for_all
from wherry.commands.leases import LeaseTasks
from wherry.domain.outcome import Outcome
from wherry.transport.base import run
from wherry.worker.attempt import Runner

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_many_that_want_the_same_task_at_once_get_it_once(
    dsn: str, connect: Connect, isolation: str
) -> None:
    """DBL-13: also where the database's own isolation level is another one."""
    rounds, workers = 40, 20
    set_for_all(connect(), default_transaction_isolation=isolation)
    together = threading.Barrier(workers + 1)
    got: list[tuple[int, int]] = []

    def want(number: int) -> None:
        # Not one of our own sessions, which would set the level themselves.
        connection = connect()
        for round_ in range(rounds):
            together.wait(30)
            command = LeaseTasks(queue="default", worker=f"w{number}")
            while True:
                try:
                    leases = run(connection, command, schema="wherry")
                    break
                except psycopg.errors.SerializationFailure:
                    continue
            got.extend((round_, lease.id) for lease in leases)
            together.wait(30)

    threads = [threading.Thread(target=want, args=[n]) for n in range(workers)]
    for thread in threads:
        thread.start()
    with wherry.App(dsn) as app:
        for _ in range(rounds):
            app.enqueue("t")
            together.wait(30)
            together.wait(30)
    for thread in threads:
        thread.join(30)

    assert [round_ for round_, _ in got] == list(range(rounds))
    assert len({id_ for _, id_ in got}) == rounds


async def test_a_pause_between_lease_and_start_is_seen_by_no_reaper(
    app: wherry.App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DBL-15: the lease, its end and its owner are there from the first moment."""
    starts: Counter[int] = Counter()
    run_one = Runner.run

    async def late(runner: Runner, lease: Any, slot: Any) -> Outcome | None:
        await asyncio.sleep(0.05)
        return await run_one(runner, lease, slot)

    monkeypatch.setattr(Runner, "run", late)

    @app.task(name="t", max_attempts=1)
    async def t(n: int) -> None:
        starts[n] += 1

    await t.aenqueue_many([{"n": n} for n in range(300)])
    reaping = timedelta(seconds=0.01)

    async with (
        at_work(app, name="a", look_every=reaping),
        at_work(app, name="b", look_every=reaping),
    ):
        connection = connect()
        async with asyncio.timeout(30):
            while connection.execute("select from wherry.live limit 1").fetchall():
                await app.areap()

    assert set(starts.values()) == {1}
    assert len(starts) == 300
    assert connection.execute("select count(*) from wherry.attempt").fetchall() == [(0,)]
