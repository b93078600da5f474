"""Leases and reports are the same by either way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import wherry
from tests.conformance.support import get, leased
from wherry import Reported
from wherry.domain.retry import Fixed
from wherry.domain.state import State


async def test_a_lease_has_all_that_a_worker_needs(app: wherry.App) -> None:
    made = await app.aenqueue(
        "t", {"n": 1}, priority=3, timeout=9.5, tags=["a"], headers={"h": "1"}, key="k",
        retry=Fixed(7), max_attempts=4,
    )  # fmt: skip

    [lease] = await app.alease(worker="w", lease_for=30)

    task = await get(app, made.id)
    assert (lease.id, lease.queue, lease.type, lease.payload) == (made.id, "default", "t", {"n": 1})
    assert (lease.attempt, lease.max_attempts, lease.snoozes) == (1, 4, 0)
    assert (lease.priority, lease.timeout_seconds, lease.tags) == (3, 9.5, ["a"])
    assert (lease.key, lease.headers_text) == ("k", task.headers_text)
    assert lease.retry_text is not None
    assert (lease.run_after, lease.created_at) == (task.run_after, task.created_at)
    assert lease.leased_at == task.started_at
    assert 28 < lease.remaining <= 30


async def test_leases_come_from_the_queues_and_types_that_were_asked_for(app: wherry.App) -> None:
    for queue in ("a", "b", "c"):
        await app.aenqueue(f"of {queue}", queue=queue)

    assert await app.alease(worker="w", queues=["a", "b"], types=["of c"]) == []
    assert await app.alease(worker="w", queues=["a", "b"], types=[]) == []
    first = await app.alease(worker="w", queues=["b", "a"])
    rest = await app.alease(worker="w", queues=["*"], max_tasks=10)

    assert [lease.queue for lease in first] == ["b"]
    assert {lease.queue for lease in rest} == {"a", "c"}


async def test_a_lease_waits_for_a_task(app: wherry.App) -> None:
    waiting = asyncio.create_task(app.alease(worker="w", wait=60, lease_for=600))
    await asyncio.sleep(0)
    made = await app.aenqueue("t")

    async with asyncio.timeout(30):
        [lease] = await waiting

    assert lease.id == made.id
    assert lease.remaining > 500
    assert await app.alease(worker="w", wait=0.2) == []


async def test_reports_are_accepted_once(app: wherry.App) -> None:
    lease = await leased(app)

    assert await app.aheartbeat([lease]) == [Reported.EXTENDED]
    assert await app.acomplete(lease, result={"a": [1, None]}) is Reported.DONE
    assert await app.acomplete(lease) is Reported.ALREADY_DONE
    assert await app.aheartbeat([lease]) == [Reported.LOST]
    task = await get(app, lease.id)
    assert (task.state, task.result) == (State.SUCCEEDED, {"a": [1, None]})


async def test_a_heartbeat_moves_the_deadline_and_tells_of_a_cancel(app: wherry.App) -> None:
    lease = await leased(app)
    other = await leased(app)

    await app.acancel(other.id)
    answers = await app.aheartbeat([lease, other], lease_for=120)

    assert answers == [Reported.EXTENDED, Reported.CANCEL_REQUESTED]
    assert 118 < lease.remaining <= 120
    assert 118 < other.remaining <= 120
    assert await app.afail(other, wherry.Cancel("it is")) in (Reported.CANCELED, Reported.REQUEUED)


async def test_failures_wait_and_end_as_asked(app: wherry.App) -> None:
    lease = await leased(app, max_attempts=2)
    assert await app.afail(lease, ValueError("no\x00good"), after=0) is Reported.REQUEUED
    [again] = await app.alease(worker="w", wait=5)
    assert (again.id, again.attempt, again.token) == (lease.id, 2, lease.token + 1)
    assert "no" in (again.last_error or "")
    assert await app.afail(again, "for good", retry=False) is Reported.FAILED
    assert await app.afail(again, "twice") is Reported.ALREADY_DONE

    task = await get(app, lease.id)
    assert (task.state, len(task.history)) == (State.FAILED, 2)
    assert task.history[0].error_type in ("ValueError", "builtins.ValueError")


async def test_snoozed_and_released_tasks_keep_their_attempt(app: wherry.App) -> None:
    lease = await leased(app)

    assert await app.arelease(lease) is Reported.REQUEUED
    [again] = await app.alease(worker="w", wait=5)
    assert again.attempt == 1
    assert await app.asnooze(again, 3600) is Reported.REQUEUED
    assert await app.arelease(again) is Reported.ALREADY_DONE
    task = await get(app, lease.id)
    assert (task.state, task.attempts) == (State.QUEUED, 0)
    assert task.run_after > datetime.now(UTC) + timedelta(minutes=50)


async def test_a_stale_lease_changes_nothing(app: wherry.App) -> None:
    stale = await leased(app)
    await app.afail(stale, "no", after=0)
    [lease] = await app.alease(worker="w2", wait=5)

    assert await app.acomplete(stale) in (Reported.LOST, Reported.ALREADY_DONE)
    assert await app.acomplete(lease) is Reported.DONE


async def test_a_lease_of_a_server_is_settled_in_the_database_itself(
    remote: wherry.App, database: wherry.App, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """By a program that has both, with a transaction or without."""
    for _ in range(5):
        await remote.aenqueue("t")
    leases = await remote.alease(worker="w", max_tasks=5)
    first, second, third, fourth, fifth = leases

    with connect(autocommit=False) as tx:
        in_transaction = await asyncio.to_thread(database.complete, first, tx=tx)
    alone = [
        await database.acomplete(second),
        await database.afail(third, "no", retry=False),
        await database.asnooze(fourth, 60),
        await database.arelease(fifth),
    ]
    again = await remote.acomplete(second)

    assert in_transaction is Reported.DONE
    assert alone == [Reported.DONE, Reported.FAILED, Reported.REQUEUED, Reported.REQUEUED]
    assert again is Reported.ALREADY_DONE


async def test_a_lease_that_names_none_is_refused_before_anything_is_sent(
    database: wherry.App, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    await database.aenqueue("t")
    [lease] = await database.alease(worker="w")
    lease.lease_id = "something else"

    with connect(autocommit=False) as tx, pytest.raises(wherry.InvalidOption, match="lease token"):
        database.complete(lease, tx=tx)
    with pytest.raises(wherry.InvalidOption, match="lease token"):
        await database.acomplete(lease)
