"""Keys in the caller's transaction: the same answers on every kind of connection.

An answer is never empty, and never an error that would poison the transaction, but for a conflict
that REPEATABLE READ and SERIALIZABLE are there to report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import wherry
from tests.drivers.conftest import Stored
from tests.drivers.kinds import READ_COMMITTED, Kind, driver_error, sqlstate
from tests.facts import wait_until_blocked

Connect = Callable[..., psycopg.Connection[Any]]
Observer = psycopg.Connection[Any]


async def test_a_key_that_is_there_is_answered_with_its_task(
    app: wherry.App, caller: Kind, stored: Stored
) -> None:
    first = await app.aenqueue("t", {"n": 1}, key="k")
    await caller.begin()

    same = await caller.enqueue(app, payload={"n": 1}, key="k")
    other = await caller.enqueue(app, payload={"n": 2}, key="k")
    elsewhere = await caller.enqueue(app, payload={"n": 1}, key="k", queue="other")

    await caller.commit()
    assert same == wherry.Enqueued(first.id, False, True)
    assert other == wherry.Enqueued(first.id, False, False)
    assert elsewhere.created
    assert stored() == [first.id, elsewhere.id]


async def test_a_key_of_the_same_transaction_is_answered_with_its_task(
    app: wherry.App, caller: Kind, stored: Stored
) -> None:
    await caller.begin()

    first = await caller.enqueue(app, payload={"n": 1}, key="k")
    second = await caller.enqueue(app, payload={"n": 1}, key="k")

    await caller.commit()
    assert second == wherry.Enqueued(first.id, False, True)
    assert stored() == [first.id]


async def test_many_are_answered_one_by_one_in_their_order(
    app: wherry.App, caller: Kind, stored: Stored
) -> None:
    """IDM-08: in the batch twice, there before, of the same transaction, and without a key."""
    before = await app.aenqueue("t", key="before")
    await caller.begin()
    earlier = await caller.enqueue(app, key="earlier")

    answers = await caller.call(
        app,
        "enqueue_many",
        [
            {"type": "t", "key": "twice", "payload": {"n": 1}},
            {"type": "t"},
            {"type": "t", "key": "before"},
            {"type": "t", "key": "twice", "payload": {"n": 2}},
            {"type": "t", "key": "earlier"},
            {"type": "t"},
        ],
    )

    await caller.commit()
    assert [answer.created for answer in answers] == [True, True, False, False, False, True]
    assert [answer.payload_matches for answer in answers] == [True, None, True, False, True, None]
    assert answers[3].id == answers[0].id
    assert (answers[2].id, answers[4].id) == (before.id, earlier.id)
    new = [answers[index].id for index in (0, 1, 5)]
    assert stored() == [before.id, earlier.id, *sorted(new)]


async def test_a_finished_task_keeps_its_key_or_gives_it_up(
    app: wherry.App, caller: Kind, stored: Stored
) -> None:
    """IDM-03, IDM-04: this takes several statements, all in the caller's transaction."""
    kept = await app.aenqueue("t", key="kept", key_ttl=60)
    ended = await app.aenqueue("t", key="ended", key_ttl=0)
    for lease in await app.alease(worker="w", max_tasks=2):
        assert await app.acomplete(lease) is wherry.Reported.DONE
    await caller.begin()

    still = await caller.enqueue(app, key="kept")
    [again, new, same, taken] = await caller.call(
        app,
        "enqueue_many",
        [{"type": "t", "key": key} for key in ("ended", "new", "ended", "kept")],
    )

    assert still == wherry.Enqueued(kept.id, False, True)
    assert taken == still
    assert (again.created, new.created) == (True, True)
    assert same == wherry.Enqueued(again.id, False, True)
    assert stored() == [kept.id, ended.id]
    await caller.commit()
    assert stored() == [kept.id, ended.id, *sorted([again.id, new.id])]


async def test_a_takeover_that_is_rolled_back_leaves_the_key_free(
    app: wherry.App, caller: Kind, stored: Stored
) -> None:
    ended = await app.aenqueue("t", key="k", key_ttl=0)
    [lease] = await app.alease(worker="w")
    assert await app.acomplete(lease) is wherry.Reported.DONE
    await caller.begin()
    assert (await caller.enqueue(app, key="k")).created

    await caller.rollback()

    assert stored() == [ended.id]
    assert (await app.aenqueue("t", key="k")).created


async def test_a_key_held_by_an_open_transaction_is_waited_for(
    app: wherry.App, connect: Connect, observer: Observer, caller: Kind, stored: Stored
) -> None:
    """K1: the first one's id if it commits; later isolation levels cannot see that one."""
    other = connect(autocommit=False)
    first = app.enqueue("t", {"n": 1}, key="k", tx=other)
    await caller.begin()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(_answer(caller.enqueue(app, payload={"n": 2}, key="k")))
        await asyncio.to_thread(wait_until_blocked, observer, by=other)

        other.commit()

    answer = waiting.result()
    if caller.isolation == READ_COMMITTED:
        assert answer == wherry.Enqueued(first.id, False, False)
        await caller.commit()
    else:
        assert sqlstate(answer) == "40001"
        assert not isinstance(answer, wherry.WherryError)
        await caller.rollback()
        await caller.begin()
        assert (await caller.enqueue(app, key="k")).id == first.id
        await caller.commit()
    assert stored() == [first.id]


async def test_a_key_that_an_open_transaction_gives_up_is_ours(
    app: wherry.App, connect: Connect, observer: Observer, caller: Kind, stored: Stored
) -> None:
    """K1: the first one rolls back, so the second one's task is the one."""
    other = connect(autocommit=False)
    app.enqueue("t", key="k", tx=other)
    await caller.begin()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(caller.enqueue(app, key="k"))
        await asyncio.to_thread(wait_until_blocked, observer, by=other)

        other.rollback()

    assert waiting.result().created
    await caller.commit()
    assert stored() == [waiting.result().id]


async def test_of_many_one_key_is_waited_for_and_the_rest_is_stored_with_it(
    app: wherry.App, connect: Connect, observer: Observer, plain_caller: Kind, stored: Stored
) -> None:
    other = connect(autocommit=False)
    first = app.enqueue("t", key="k", tx=other)
    await plain_caller.begin()
    batch = [{"type": "t", "key": "a"}, {"type": "t", "key": "k"}, {"type": "t"}]
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(plain_caller.call(app, "enqueue_many", batch))
        await asyncio.to_thread(wait_until_blocked, observer, by=other)

        other.commit()

    answers = waiting.result()
    await plain_caller.commit()
    assert [answer.created for answer in answers] == [True, False, True]
    assert answers[1].id == first.id
    assert stored() == sorted(answer.id for answer in answers)


async def test_a_call_waits_for_no_longer_than_the_callers_lock_timeout(
    app: wherry.App, connect: Connect, plain_caller: Kind
) -> None:
    """IDM-09: a key that an open transaction holds."""
    app.enqueue("t", key="k", tx=connect(autocommit=False))
    await plain_caller.begin()
    await plain_caller.execute("set local lock_timeout = '50ms'")

    async with asyncio.timeout(30):
        with driver_error("55P03"):
            await plain_caller.enqueue(app, key="k")


async def test_a_held_key_keeps_nobody_waiting_but_those_who_want_it(
    dsn: str, app: wherry.App, connect: Connect, observer: Observer
) -> None:
    """IDM-09: other keys go on beside a crowd that waits for this one."""
    other = connect(autocommit=False)
    first = app.enqueue("t", key="k", tx=other)
    waits_for_nothing = wherry.App(f"{dsn}&options=-c%20lock_timeout%3D50ms", pool_timeout=1)
    async with waits_for_nothing, asyncio.TaskGroup() as tasks:
        crowd = [tasks.create_task(app.aenqueue("t", key="k")) for _ in range(5)]
        await asyncio.to_thread(wait_until_blocked, observer, by=other)

        answers = await waits_for_nothing.aenqueue_many(
            [{"type": "t", "key": f"k{n}"} for n in range(100)]
        )

        assert all(answer.created for answer in answers)
        assert not any(task.done() for task in crowd)
        other.commit()
    assert {task.result() for task in crowd} == {wherry.Enqueued(first.id, False, True)}


async def test_two_calls_in_opposite_orders_can_deadlock_as_any_two_writes(
    app: wherry.App, connect: Connect, observer: Observer, plain_caller: Kind
) -> None:
    """K5 holds for one call, which takes its keys in order, not for what callers do in two."""
    other = connect(autocommit=False, options="-c deadlock_timeout=50ms")
    app.enqueue("t", key="a", tx=other)
    await plain_caller.begin()
    await plain_caller.enqueue(app, key="b")
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(plain_caller.enqueue(app, key="a"))
        await asyncio.to_thread(wait_until_blocked, observer, by=other)

        with pytest.raises(psycopg.errors.DeadlockDetected):
            await asyncio.to_thread(app.enqueue, "t", key="b", tx=other)

    assert waiting.result().created


async def _answer(call: Any) -> Any:
    try:
        return await call
    except Exception as error:
        return error
