"""What is asked about tasks is answered alike by either way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

import wherry
from tests.conformance.support import dead, get, leased
from tests.facts import await_for
from wherry.commands.workers import BeatWorker
from wherry.domain.state import State
from wherry.domain.why import Why

NOBODY = 10**9


def at_rest(why: Why) -> Why:
    """Leave out what differs from one look to the next."""
    return replace(why, at=None)


async def test_why_tells_the_same(app: wherry.App, database: wherry.App) -> None:
    await database.apause_queue("q", reason="a flood")
    queued = (await app.aenqueue("t", queue="q", ttl=36_000)).id
    ended = await dead(app)
    held = (await leased(app)).id

    async def looks(id_: int) -> list[Why]:
        """Two that tell the same: who has leased, a server says with its next beat only."""

        async def alike() -> list[Why]:
            both = [await app.awhy(id_), await database.awhy(id_)]
            told, known = ([reason.code for reason in look.reasons] for look in both)
            return both if told == known else []

        return await await_for(alike)

    for id_ in (queued, ended, held):
        told, known = await looks(id_)
        assert (told.state, told.queue, told.id) == (known.state, known.queue, id_)
        assert [reason.at for reason in told.reasons] == [r.at for r in known.reasons]
    assert at_rest(await app.awhy(ended)).reasons[0].advice == (
        (await database.awhy(ended)).reasons[0].advice
    )


async def test_why_of_nobody_is_an_answer(app: wherry.App) -> None:
    told = await app.awhy(NOBODY)

    assert told == Why.not_found(NOBODY)
    assert told.state is not State.QUEUED


async def test_tasks_are_found_alike(app: wherry.App) -> None:
    first = (await app.aenqueue("t", {"customer": {"id": 42}}, key="k")).id
    ended = await dead(app, queue="default", priority=1)
    newest = (await app.aenqueue("t", {"customer": {"id": 7}})).id
    at = (await get(app, newest)).created_at

    async def found(**filter: Any) -> list[int]:
        page = await app.alist_tasks(**filter)
        assert (await app.acount_tasks(**filter)).tasks == len(page.tasks)
        return [task.id for task in page.tasks]

    assert await found(id=first) == [first]
    assert await found(key="k") == [first]
    assert await found(payload={"customer": {"id": 42}}) == [first]
    assert await found(worker="w") == [ended]
    assert await found(created_before=at) == [ended, first]
    assert await found(created_after=at, state="queued") == [newest]
    assert await found(finished_after=at - timedelta(days=1)) == [ended]
    assert await found(finished_before=at - timedelta(days=1)) == []


async def test_pages_lead_back(app: wherry.App) -> None:
    for _ in range(5):
        await app.aenqueue("t")

    first = await app.alist_tasks(limit=2)
    second = await app.alist_tasks(limit=2, after=first.after)
    back = await app.alist_tasks(limit=2, before=second.before)

    assert (back.tasks, back.before) == (first.tasks, None)
    assert first.before is None


async def test_a_count_stops(app: wherry.App) -> None:
    for _ in range(3):
        await app.aenqueue("t")

    assert await app.acount_tasks(most=2) == wherry.Counted(2, True)


async def test_a_search_that_takes_too_long_says_so(
    app: wherry.App, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    await app.aenqueue("t")
    blocker = connect(autocommit=False)
    blocker.execute("lock table wherry.live in access exclusive mode")

    with pytest.raises(wherry.TimedOut) as told:
        await app.alist_tasks(timeout=0.05)
    with pytest.raises(wherry.TimedOut):
        await app.acount_tasks(timeout=0.05)

    assert told.value.seconds == 0.05
    blocker.rollback()


async def test_searches_that_make_no_sense_are_refused(app: wherry.App) -> None:
    wrongs: list[dict[str, Any]] = [
        {"timeout": 61},
        {"limit": 0},
        {"payload": "[]"},
        {"created_after": datetime(2030, 1, 1)},  # noqa: DTZ001
        {"after": 1, "before": 1},
    ]
    for wrong in wrongs:
        with pytest.raises(wherry.InvalidTask):
            await app.alist_tasks(**wrong)
    with pytest.raises(wherry.InvalidOption):
        await app.acount_tasks(most=100_001)


async def test_dead_tasks_are_grouped_and_a_group_is_requeued_at_a_rate(app: wherry.App) -> None:
    ids = [await dead(app, priority=n) for n in range(3)]
    await app.aenqueue("t", queue="other")

    found = await app.agroup_dead_tasks()

    [group] = found.groups
    assert (group.tasks, group.sample_id, group.queues, found.capped) == (
        *(3, ids[-1], ("default",), False),
    )
    assert "no" in group.sample_error
    assert (found.since, sum(group.spread), len(group.spread)) == (group.first_at, 3, 24)
    page = await app.alist_tasks(fingerprint=group.fingerprint)
    assert [task.id for task in page.tasks] == ids[::-1]
    answers = await app.arequeue_many(ids, delay=60, per_second=0.01)
    assert {each.answer for each in answers} == {wherry.RequeueAnswer.QUEUED}
    first, second, third = [(await get(app, id_)).run_after for id_ in ids]
    assert second - first == third - second == timedelta(seconds=100)
    for wrong in (0, -1, float("nan"), 10**9, True):
        with pytest.raises(wherry.InvalidOption, match="per_second"):
            await app.arequeue_many(ids, per_second=wrong)
    with pytest.raises(wherry.InvalidOption, match="fingerprint"):
        await app.alist_tasks(fingerprint="x")


async def test_dead_tasks_are_put_into_another_queue(app: wherry.App) -> None:
    id_ = await dead(app, key="k")

    [answer] = await app.arequeue_many([id_], to_queue="aside")

    task = await get(app, id_)
    assert answer.answer is wherry.RequeueAnswer.QUEUED
    assert (task.queue, task.key, task.state) == ("aside", None, State.QUEUED)
    assert len(task.history) == 1
    for wrong in ("", "*", 7):
        with pytest.raises(wherry.InvalidOption, match="queue"):
            await app.arequeue_many([id_], to_queue=wrong)  # type: ignore[arg-type]


async def test_a_worker_tells_what_it_is(app: wherry.App, database: wherry.App) -> None:
    beat = BeatWorker(
        instance=str(UUID(int=1)),
        name="box",
        host="h",
        pid=7,
        queues=None,
        types=None,
        slots=20,
        version="0.1.0",
        memory_bytes=5 * 2**30,
        deaf_seconds=90.0,
    )
    await database.acarry(beat)

    [seen] = await app.alist_workers()

    assert (seen.slots, seen.version, seen.memory_bytes) == (20, "0.1.0", 5 * 2**30)
    assert seen.deaf_seconds == 90.0
