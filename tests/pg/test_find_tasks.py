"""Tasks are found by what an operator knows of them, in pages to and fro, counted, and in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import wait_until_blocked
from tests.pg.support import Session, spec
from wherry.commands.finding import CountTasks, ListTasks
from wherry.domain.filter import Counted, Filter
from wherry.domain.state import State
from wherry.domain.task import Page
from wherry.testing import Clock


def listed(session: Session, **filter: Any) -> list[int]:
    return [task.id for task in session.call(ListTasks(Filter(**filter))).tasks]


def counted(session: Session, *, most: int = 10_000, **filter: Any) -> Counted:
    return session.call(CountTasks(Filter(**filter), most))


def found(session: Session, **filter: Any) -> list[int]:
    """List tasks; what is counted and what is found from the other end must be the same."""
    ids = listed(session, **filter)
    assert counted(session, **filter) == Counted(len(ids), False)
    backward = session.call(ListTasks(Filter(**filter), 1000, before=1))
    assert [task.id for task in backward.tasks] == [id_ for id_ in ids if id_ > 1]
    return ids


@pytest.fixture(params=["live", "finished", "dead"])
def end(request: pytest.FixtureRequest, session: Session) -> Callable[..., int]:
    """Store a task, and let it end as the test is run: not at all, well, or badly."""

    def end(*, worker: str = "w", **options: Any) -> int:
        id_ = session.enqueue(**options)
        if request.param != "live":
            lease = session.lease_one(worker=worker, queue=options.get("queue", "default"))
            assert lease.id == id_
            if request.param == "finished":
                session.complete(lease)
            else:
                session.fail(lease, verdict="fail")
        return id_

    return end


def test_a_task_is_found_by_its_id(session: Session, end: Callable[..., int]) -> None:
    ids = [end() for _ in range(3)]

    for id_ in ids:
        assert found(session, id=id_) == [id_]
    assert found(session, id=10**9) == []
    assert found(session, id=ids[0], queue="other") == []


def test_a_task_is_found_by_its_key(session: Session, end: Callable[..., int]) -> None:
    end()
    id_ = end(key="order 7")

    assert found(session, key="order 7") == [id_]
    assert found(session, key="order") == []


@pytest.mark.parametrize(
    ("payload", "matches"),
    [
        ('{"customer": 42}', True),
        ('{"customer": "42"}', False),
        ('{"at": {"city": "Graz"}}', True),
        ('{"city": "Graz"}', False),
        ('{"tags": ["b"]}', True),
        ('{"customer": 42, "at": {}}', True),
        ('{"none": null}', True),
        ("{}", True),
    ],
)
def test_a_task_is_found_by_what_its_payload_holds(
    session: Session, end: Callable[..., int], payload: str, matches: bool
) -> None:
    held = {"customer": 42, "at": {"city": "Graz", "zip": 8010}, "tags": ["a", "b"], "none": None}
    id_ = end(payload=held)

    assert found(session, payload_text=payload) == ([id_] if matches else [])


def test_tasks_are_found_by_when_they_were_stored(
    session: Session, clock: Clock, end: Callable[..., int]
) -> None:
    first = end()
    clock.advance(hours=1)
    second = end()
    at = session.task(second).created_at

    assert found(session, created_before=at) == [first]
    assert found(session, created_after=at) == [second]
    assert found(session, created_after=at - timedelta(hours=2)) == [second, first]


def test_tasks_are_found_by_when_they_ended_and_live_ones_never(
    session: Session, clock: Clock
) -> None:
    first, second = session.enqueue(), session.enqueue()
    session.enqueue()
    session.complete(session.lease_one())
    clock.advance(hours=1)
    session.complete(session.lease_one())
    at = session.task(second).finished_at

    assert found(session, finished_before=at) == [first]
    assert found(session, finished_after=at) == [second]


def test_tasks_are_found_by_who_has_them_or_ended_them(session: Session) -> None:
    ended, held = session.enqueue(), session.enqueue()
    session.enqueue()
    session.complete(session.lease_one(worker="box"))
    session.lease_one(worker="box")

    assert found(session, worker="box") == [held, ended]
    assert found(session, worker="other") == []


def test_pages_lead_back_the_way_they_came(session: Session) -> None:
    session.enqueue_many(*[spec()] * 25)
    session.complete(*session.lease(8))
    session.fail(*session.lease(5), verdict="fail")
    everything = listed(session)

    for size in (1, 3, 7, 24, 25, 26):
        forth: list[Page] = []
        after = None
        while True:
            forth.append(session.call(ListTasks(Filter(), size, after)))
            after = forth[-1].after
            if after is None:
                break
        assert forth[0].before is None
        assert [task.id for page in forth for task in page.tasks] == everything
        for there, back in zip(forth[1:], forth, strict=False):
            page = session.call(ListTasks(Filter(), size, before=there.before))
            assert page.tasks == back.tasks, size
            assert (page.before is None) == (back is forth[0])
            assert page.after == page.tasks[-1].id


def test_nothing_comes_before_the_newest(session: Session) -> None:
    id_ = session.enqueue()

    assert session.call(ListTasks(Filter(), before=id_)) == Page((), None)


def test_a_count_stops_and_says_so(session: Session) -> None:
    session.enqueue_many(*[spec()] * 12)
    session.complete(*session.lease(6))

    assert counted(session) == Counted(12, False)
    assert counted(session, most=12) == Counted(12, False)
    assert counted(session, most=11) == Counted(11, True)
    assert counted(session, most=3) == Counted(3, True)
    assert counted(session, states=frozenset({State.SUCCEEDED})) == Counted(6, False)


async def test_a_search_ends_in_time_and_the_connection_lives_on(
    app: wherry.App, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    await app.aenqueue("t")
    blocker = connect(autocommit=False)
    # Nobody may even look: as a search that goes on and on.
    blocker.execute("lock table wherry.live in access exclusive mode")

    for search in (app.alist_tasks, app.acount_tasks):
        with pytest.raises(wherry.TimedOut) as refused:
            await search(timeout=0.05, error="x")
        assert refused.value.seconds == 0.05
    blocker.rollback()

    assert await app.acount_tasks() == Counted(1, False)


async def test_a_search_that_somebody_cancels_is_sent_again(
    app: wherry.App, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """It has not run out of its time."""
    await app.aenqueue("t")
    blocker = connect(autocommit=False)
    blocker.execute("lock table wherry.live in access exclusive mode")

    searching = asyncio.create_task(app.acount_tasks())
    first = await asyncio.to_thread(wait_until_blocked, connect(), by=blocker)
    connect().execute("select pg_cancel_backend(%s)", [first])
    blocker.rollback()

    assert await searching == Counted(1, False)
