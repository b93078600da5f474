"""Ids that no 32 bits hold, and some that no double does."""

from __future__ import annotations

import psycopg
import pytest

import wherry
from wherry import Reported


@pytest.mark.parametrize("first", [2**31 + 2, 2**53 + 1, 2**62])
async def test_a_task_with_a_large_id_goes_all_the_ways_that_others_go(
    app: wherry.App, dsn: str, first: int
) -> None:
    """SCL-02."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("select setval('wherry.task_id', %s, false)", [first])

    made = await app.aenqueue_many([{"type": "t", "key": "a"}, {"type": "t"}])

    ids = [each.id for each in made]
    # Some may have been drawn ahead for others.
    assert min(ids) >= first
    assert len(set(ids)) == 2
    assert [task.id for task in (await app.alist_tasks()).tasks] == sorted(ids, reverse=True)
    assert [task.id for task in (await app.alist_tasks(after=max(ids))).tasks] == [min(ids)]
    found = await app.aget_task(queue="default", key="a")
    assert found is not None
    assert found.id == ids[0]
    leases = await app.alease(worker="w", max_tasks=2)
    assert {lease.id for lease in leases} == set(ids)
    assert await app.aheartbeat(leases) == [Reported.EXTENDED] * 2
    assert [await app.arelease(lease) for lease in leases] == [Reported.REQUEUED] * 2
    [lease] = await app.alease(worker="w")
    assert await app.afail(lease, "boom", after=0) is Reported.REQUEUED
    failed = await app.aget_task(lease.id)
    assert failed is not None
    assert [attempt.message for attempt in failed.history] == ["boom"]
    # The one that failed may wait for its moment; either is as good.
    [lease] = await app.alease(worker="w", wait=10)
    assert await app.acomplete(lease) is Reported.DONE
    assert (await app.arequeue(lease.id)).id == lease.id
    assert await app.acancel_many(ids) == [wherry.Canceled.CANCELED] * 2
    assert await app.apurge_many(ids) == [wherry.Purged.PURGED] * 2
