"""The calls for operators, in both forms, and what they refuse before anything is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

import wherry
from tests.facts import wait_until_blocked
from wherry import App, Directive
from wherry.commands.workers import BeatWorker
from wherry.testing import inline

ME = BeatWorker(instance=str(UUID(int=1)), name="box", host="h", pid=1, queues=None, types=None)


async def test_a_queue_is_paused_and_resumed(app: App) -> None:
    await app.aenqueue("t", queue="q")

    assert await app.apause_queue("q", reason="a flood") is True
    assert await app.apause_queue("q") is False
    assert await app.alease(worker="w", queues=["q"]) == []

    [depth] = await app.alist_queues()
    assert (depth.ready, depth.paused_by, depth.pause_reason) == (1, None, "a flood")
    assert await app.aresume_queue("q") == wherry.Resumed(True)
    assert await app.aresume_queue("q") == wherry.Resumed(False)
    assert len(await app.alease(worker="w", queues=["q"])) == 1


async def test_a_waiting_lease_of_any_queue_passes_a_paused_one_over(app: App) -> None:
    await app.aenqueue("t", queue="paused")
    await app.apause_queue("paused")
    open_task = await app.aenqueue("t", queue="open")

    leases = await app.alease(worker="w", queues=["*"], max_tasks=9)

    assert [lease.id for lease in leases] == [open_task.id]


async def test_workers_are_listed_and_told(app: App) -> None:
    assert await app.adirect_workers(["box"], "drain") == 0
    assert await app.acarry(ME) is Directive.NONE

    assert await app.adirect_workers(["box"], Directive.DRAIN, reason="a new disk") == 1

    assert await app.acarry(ME) is Directive.DRAIN
    [seen] = await app.alist_workers()
    assert (seen.name, seen.directive, seen.directive_reason) == ("box", "drain", "a new disk")


@pytest.mark.parametrize(
    "call",
    [
        lambda app: app.pause_queue("*"),
        lambda app: app.pause_queue(""),
        lambda app: app.pause_queue("q", reason=7),
        lambda app: app.resume_queue("a\x00b"),
        lambda app: app.direct_workers(["box"], "rest"),
        lambda app: app.direct_workers("box", "drain"),
        lambda app: app.direct_workers([""], "drain"),
        lambda app: app.get_task(),
        lambda app: app.get_task(7, key="k"),
        lambda app: app.get_task(7, queue="q"),
        lambda app: app.get_task(queue="q"),
        lambda app: app.get_task(key=""),
    ],
)
def test_what_cannot_be_meant_is_refused(call: Callable[[App], Any]) -> None:
    app = App("host=/nowhere")

    with pytest.raises(wherry.InvalidOption):
        call(app)


async def test_a_task_is_read_by_its_key(app: App) -> None:
    first = await app.aenqueue("t", key="k")
    other = await app.aenqueue("t", queue="other", key="k")

    found = [
        await app.aget_task(key="k"),
        await app.aget_task(queue="other", key="k"),
        await app.aget_task(queue="nobody", key="k"),
    ]

    assert [task and task.id for task in found] == [first.id, other.id, None]


def test_inside_a_test_without_a_database_too() -> None:
    app = App("host=/nowhere")

    with inline(app, elsewhere=["t"]):
        id_ = app.enqueue("t", queue="q", key="k").id

        found = app.get_task(queue="q", key="k")

        assert found is not None
        assert found.id == id_
        assert app.get_task(key="k") is None


@pytest.mark.parametrize("resumed", ["queue", "type"])
async def test_a_resume_is_done_when_it_tells_what_stays_paused(
    app: App, connect: Callable[[], psycopg.Connection[Any]], resumed: str
) -> None:
    await app.apause_queue("q")
    await app.apause_type("t", queue="q")
    holder, observer = connect(), connect()
    tables = ("paused", "paused_type")
    changed, read = tables if resumed == "queue" else tables[::-1]
    with holder.transaction():
        holder.execute(
            SQL("lock table wherry.{} in access exclusive mode").format(Identifier(read))
        )
        resume = app.aresume_queue("q") if resumed == "queue" else app.aresume_type("t", queue="q")
        resuming = asyncio.ensure_future(resume)
        await asyncio.to_thread(wait_until_blocked, observer, by=holder)

        count = SQL("select count(*) from wherry.{}").format(Identifier(changed))
        still = observer.execute(count).fetchall()

    assert still == [(1,)]
    assert await resuming
