"""Finishing a task in the caller's transaction: its rows and the task's end stand or fall together.

The task row is locked until that transaction ends, and nothing else is: neither a neighbour of the
same lease nor any maintenance waits for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any

import psycopg
import pytest

import wherry
from tests.drivers.kinds import READ_COMMITTED, Kind, driver_error
from wherry import Lease, Reported
from wherry.testing import Clock

Rows = Callable[[], list[int]]


@pytest.fixture
def rows(observer: psycopg.Connection[Any]) -> Rows:
    """The committed rows of a table of the caller's own."""
    observer.execute("create table orders (id bigint primary key)")
    return lambda: [row[0] for row in observer.execute("select id from orders").fetchall()]


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[wherry.App]:
    """An App that waits for no lock: what it is asked is answered at once, or it fails."""
    async with wherry.App(f"{dsn}&options=-c%20lock_timeout%3D50ms", pool_timeout=1) as app:
        yield app


async def leased(app: wherry.App, n: int = 1) -> list[Lease]:
    await app.aenqueue_many([{"type": "t"}] * n)
    leases = await app.alease(worker="w", max_tasks=n)
    assert len(leases) == n
    return leases


async def state_of(app: wherry.App, lease: Lease) -> str:
    task = await app.aget_task(lease.id)
    assert task is not None
    return task.state


async def test_a_commit_finishes_the_task_with_the_callers_row(
    app: wherry.App, caller: Kind, rows: Rows
) -> None:
    [lease] = await leased(app)
    await caller.begin()
    await caller.execute(f"insert into orders values ({lease.id})")

    answer = await caller.call(app, "complete", lease, result={"bytes": [1, None, "é"]})

    assert answer is Reported.DONE
    assert (await state_of(app, lease), rows()) == ("leased", [])
    await caller.commit()
    task = await app.aget_task(lease.id)
    assert task is not None
    assert (task.state, task.worker, rows()) == ("succeeded", "w", [lease.id])
    assert task.result == {"bytes": [1, None, "é"]}
    assert await app.acomplete(lease) is Reported.ALREADY_DONE


async def test_a_rollback_leaves_the_task_leased(app: wherry.App, caller: Kind, rows: Rows) -> None:
    [lease] = await leased(app)
    await caller.begin()
    await caller.execute(f"insert into orders values ({lease.id})")
    await caller.call(app, "complete", lease)

    await caller.rollback()

    assert (await state_of(app, lease), rows()) == ("leased", [])
    assert await app.aheartbeat([lease]) == [Reported.EXTENDED]
    assert await app.acomplete(lease) is Reported.DONE


async def test_a_savepoint_takes_the_completion_back(
    app: wherry.App, plain_caller: Kind, rows: Rows
) -> None:
    [lease] = await leased(app)
    await plain_caller.begin()
    await plain_caller.execute(f"insert into orders values ({lease.id})")
    await plain_caller.savepoint()
    await plain_caller.call(app, "complete", lease)

    await plain_caller.rollback_to_savepoint()

    await plain_caller.commit()
    assert (await state_of(app, lease), rows()) == ("leased", [lease.id])


async def test_a_lost_lease_is_raised_so_that_nothing_is_committed(
    app: wherry.App, clock: Clock, caller: Kind, rows: Rows
) -> None:
    """C4: a value would be overlooked, and the effects committed."""
    [lease] = await leased(app)
    clock.advance(minutes=1)
    await app.areap()
    await caller.begin()
    await caller.execute(f"insert into orders values ({lease.id})")

    with pytest.raises(wherry.LeaseLost) as lost:
        await caller.call(app, "complete", lease)

    assert (lost.value.task_id, lost.value.token) == (lease.id, lease.token)
    await caller.rollback()
    assert (await state_of(app, lease), rows()) == ("queued", [])


async def test_a_lease_that_has_run_out_is_lost_also_before_anybody_took_it_back(
    app: wherry.App, plain_caller: Kind, rows: Rows
) -> None:
    """L10: by this process's own clock, which is never later than the database's."""
    [lease] = await leased(app)
    lease.deadline = monotonic()
    await plain_caller.begin()
    await plain_caller.execute(f"insert into orders values ({lease.id})")

    with pytest.raises(wherry.LeaseLost):
        await plain_caller.call(app, "complete", lease)

    await plain_caller.rollback()
    assert (await state_of(app, lease), rows()) == ("leased", [])


async def test_a_lease_that_the_same_worker_has_again_is_another_one(
    app: wherry.App, clock: Clock, plain_caller: Kind
) -> None:
    [old] = await leased(app)
    clock.advance(minutes=1)
    await app.areap()
    clock.advance(hours=1)
    await app.areap()
    [new] = await app.alease(worker="w")
    assert new.id == old.id
    await plain_caller.begin()

    with pytest.raises(wherry.LeaseLost):
        await plain_caller.call(app, "complete", old)

    await plain_caller.call(app, "complete", new)
    await plain_caller.commit()
    assert await state_of(app, new) == "succeeded"


async def test_a_task_is_finished_once_in_a_transaction(
    app: wherry.App, plain_caller: Kind
) -> None:
    [lease] = await leased(app)
    await plain_caller.begin()
    await plain_caller.call(app, "complete", lease)

    with pytest.raises(wherry.LeaseLost):
        await plain_caller.call(app, "complete", lease)

    await plain_caller.commit()
    assert await state_of(app, lease) == "succeeded"


async def test_in_autocommit_the_task_is_finished_at_once(
    app: wherry.App, autocommit_caller: Kind
) -> None:
    [lease] = await leased(app)

    await autocommit_caller.call(app, "complete", lease)

    assert await state_of(app, lease) == "succeeded"


async def test_an_aborted_transaction_says_so(app: wherry.App, plain_caller: Kind) -> None:
    [lease] = await leased(app)
    await plain_caller.begin()
    with driver_error("22012"):
        await plain_caller.execute("select 1 / 0")

    with driver_error("25P02"):
        await plain_caller.call(app, "complete", lease)

    await plain_caller.rollback()
    assert await state_of(app, lease) == "leased"


async def test_a_result_that_cannot_be_stored_is_refused_before_anything_is_sent(
    app: wherry.App, plain_caller: Kind
) -> None:
    [lease] = await leased(app)
    await plain_caller.begin()

    with pytest.raises(wherry.InvalidPayload):
        await plain_caller.call(app, "complete", lease, result=float("inf"))

    await plain_caller.call(app, "complete", lease)
    await plain_caller.commit()
    assert await state_of(app, lease) == "succeeded"


async def test_a_snapshot_older_than_the_last_heartbeat_does_not_matter(
    app: wherry.App, caller: Kind, rows: Rows
) -> None:
    """STORAGE 5: with the lease's end on the task row this was a 40001, every time."""
    [lease, other] = await leased(app, 2)
    await caller.begin()
    await caller.execute(f"insert into orders values ({lease.id})")
    assert await app.aheartbeat([lease, other]) == [Reported.EXTENDED, Reported.EXTENDED]
    assert await app.acomplete(other) is Reported.DONE
    # From here on the lease row is one that this transaction has never seen.
    assert await app.aheartbeat([lease]) == [Reported.EXTENDED]

    await caller.call(app, "complete", lease)

    await caller.commit()
    assert (await state_of(app, lease), rows()) == ("succeeded", [lease.id])


async def test_a_cancel_after_the_snapshot_is_a_conflict_as_of_any_two_writes(
    app: wherry.App, caller: Kind, rows: Rows
) -> None:
    """The driver's own serialization error comes out; at READ COMMITTED the completion wins."""
    [lease] = await leased(app)
    await caller.begin()
    await caller.execute(f"insert into orders values ({lease.id})")
    assert await app.acancel(lease.id) is wherry.Canceled.REQUESTED

    if caller.isolation == READ_COMMITTED:
        await caller.call(app, "complete", lease)
        await caller.commit()
        assert (await state_of(app, lease), rows()) == ("succeeded", [lease.id])
    else:
        with driver_error("40001"):
            await caller.call(app, "complete", lease)
        await caller.rollback()
        assert (await state_of(app, lease), rows()) == ("leased", [])


async def test_an_open_completion_keeps_nobody_waiting(
    app: wherry.App, worker: wherry.App, caller: Kind
) -> None:
    """L9: heartbeats and reports of the same lease, and all maintenance, go on beside it."""
    [lease, failing, other, beating] = await leased(app, 4)
    await caller.begin()
    await caller.call(app, "complete", lease)

    assert await worker.aheartbeat([lease, failing, other, beating]) == [Reported.EXTENDED] * 4
    assert await worker.acomplete(other) is Reported.DONE
    assert await worker.afail(failing, "no") is Reported.REQUEUED
    assert await worker.acomplete(lease) is Reported.BUSY
    assert await worker.afail(lease, "late") is Reported.BUSY
    assert await worker.asnooze(lease, 1) is Reported.BUSY
    assert await worker.aheartbeat([beating]) == [Reported.EXTENDED]
    assert (await worker.aenqueue("t")).created
    assert len(await worker.alease(worker="w2")) == 1
    await worker.areap()
    await caller.commit()
    assert await state_of(app, lease) == "succeeded"
    assert await worker.acomplete(lease) is Reported.ALREADY_DONE


async def test_the_reaper_leaves_an_open_completion_alone(
    app: wherry.App, worker: wherry.App, clock: Clock, plain_caller: Kind
) -> None:
    [lease, neighbour] = await leased(app, 2)
    await plain_caller.begin()
    await plain_caller.call(app, "complete", lease)
    clock.advance(minutes=5)

    reaped = await worker.areap()

    assert reaped.reaped == 1
    assert await state_of(app, neighbour) == "queued"
    await plain_caller.commit()
    assert await state_of(app, lease) == "succeeded"
    clock.advance(hours=2)
    await worker.areap()
    assert await state_of(app, lease) == "succeeded"


async def test_a_completion_rolled_back_after_the_lease_ran_out_is_reaped(
    app: wherry.App, worker: wherry.App, clock: Clock, plain_caller: Kind
) -> None:
    [lease, _] = await leased(app, 2)
    await plain_caller.begin()
    await plain_caller.call(app, "complete", lease)
    clock.advance(minutes=5)
    await worker.areap()

    await plain_caller.rollback()

    await worker.areap()
    assert await state_of(app, lease) == "queued"
