"""Listings: newest first, by filters, in pages that neither repeat nor miss a task."""

from __future__ import annotations

import json
import random
from typing import Any

import psycopg
import pytest

from tests.pg.support import OpenSession, Session, spec
from wherry.commands.base import Statement
from wherry.commands.finding import ListTasks
from wherry.domain.failure import Failure
from wherry.domain.filter import Filter
from wherry.domain.state import State
from wherry.domain.task import Page
from wherry.testing import Clock
from wherry.transport.render import render


def listed(session: Session, *, limit: int = 100, after: int | None = None, **filter: Any) -> Page:
    return session.call(ListTasks(Filter(**filter), limit, after))


def ids(session: Session, **filter: Any) -> list[int]:
    return [task.id for task in listed(session, **filter).tasks]


def one_of_each(session: Session) -> dict[State, int]:
    found: dict[State, int] = {}
    for state in (State.SUCCEEDED, State.FAILED, State.DEAD, State.CANCELED, State.LEASED):
        session.enqueue(max_attempts=1)
        lease = session.lease_one()
        found[state] = lease.id
        if state is State.SUCCEEDED:
            session.complete(lease)
        elif state is State.FAILED:
            session.fail(lease, verdict="fail")
        elif state is State.DEAD:
            session.fail(lease)
        elif state is State.CANCELED:
            session.fail(lease, verdict="cancel")
    found[State.QUEUED] = session.enqueue()
    return found


def test_all_tasks_newest_first(session: Session) -> None:
    found = one_of_each(session)

    assert ids(session) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize("state", list(State))
def test_the_tasks_of_one_state(session: Session, state: State) -> None:
    found = one_of_each(session)

    assert ids(session, states=frozenset({state})) == [found[state]]


def test_live_and_finished_states_together(session: Session) -> None:
    found = one_of_each(session)
    wanted = frozenset({State.LEASED, State.DEAD, State.CANCELED})

    assert ids(session, states=wanted) == sorted((found[s] for s in wanted), reverse=True)


def test_pages_neither_repeat_nor_miss_a_task(session: Session) -> None:
    session.enqueue_many(*(spec() for _ in range(25)))
    session.complete(*session.lease(8))
    session.fail(*session.lease(5), verdict="fail")
    everything = ids(session)
    assert len(everything) == 25

    for size in (1, 3, 7, 24, 25, 26):
        seen: list[int] = []
        after = None
        while True:
            page = listed(session, limit=size, after=after)
            assert len(page.tasks) <= size
            seen += [task.id for task in page.tasks]
            after = page.after
            if after is None:
                break
        assert seen == everything, size


def test_an_empty_page_says_that_there_is_no_more(session: Session) -> None:
    assert listed(session) == Page((), None)


def test_filters_narrow_together(session: Session) -> None:
    wanted = session.enqueue("mail", queue="q", tags=["red", "blue"])
    session.enqueue("mail", queue="q", tags=["blue"])
    session.enqueue("mail", queue="other", tags=["red"])
    session.enqueue("print", queue="q", tags=["red"])

    assert ids(session, queue="q", type="mail", tag="red") == [wanted]
    session.complete(*session.lease(queue="q"))
    assert ids(session, queue="q", type="mail", tag="red") == [wanted]
    assert ids(session, queue="Q") == []


@pytest.mark.parametrize("text", ["time", "TIME", "d o", "out%", "_ut", "timeouterror: Timed"])
def test_an_error_is_found_by_any_part_of_its_text_literally(session: Session, text: str) -> None:
    session.enqueue()
    lease = session.lease_one()
    session.fail(lease, verdict="fail", failure=Failure("TimeoutError", "timed out", ""))

    expected = [] if set("%_") & set(text) else [lease.id]
    assert ids(session, error=text) == expected
    assert ids(session, error=text, states=frozenset({State.FAILED})) == expected


def test_a_retried_task_is_found_by_its_last_error(session: Session) -> None:
    session.enqueue()
    session.fail(session.lease_one(), failure=Failure("KeyError", "'x'", ""))

    assert len(ids(session, error="keyerror")) == 1


def test_age_counts_from_the_end_of_a_finished_and_the_start_of_a_live_task(
    session: Session, clock: Clock
) -> None:
    live, finished = session.enqueue(), session.enqueue(priority=1)
    clock.advance(hours=1)
    session.complete(session.lease_one())

    assert ids(session, older_than_seconds=1800) == [live]
    clock.advance(hours=1)
    assert ids(session, older_than_seconds=1800) == [finished, live]
    assert ids(session, older_than_seconds=1800, states=frozenset({State.DEAD})) == []


def test_a_payload_that_cannot_be_read_hides_no_other_task(session: Session) -> None:
    good, bad = session.enqueue(), session.enqueue()
    session.rows(
        "update wherry.live set payload = ('[1' || repeat('0', 2000) || ']')::json where id = %s",
        bad,
    )

    assert ids(session) == [bad, good]


def paged(session: Session, *, limit: int, limit_bytes: int) -> list[list[int]]:
    """Return the ids of all pages, one list for each."""
    pages: list[list[int]] = []
    after = None
    while True:
        page = session.call(ListTasks(Filter(), limit, after, limit_bytes))
        pages.append([task.id for task in page.tasks])
        after = page.after
        if after is None:
            return pages
        assert after == pages[-1][-1]


@pytest.mark.parametrize("seed", range(5))
def test_pages_of_large_and_small_tasks_neither_repeat_nor_miss_one(
    session: Session, seed: int
) -> None:
    dice = random.Random(seed)
    # Some are compressed, some are not, some are outside of their rows: all count.
    texts = ["", "x" * 5000, dice.randbytes(1500).hex(), dice.randbytes(10).hex()]
    session.enqueue_many(*(spec(payload={"x": dice.choice(texts)}) for _ in range(60)))
    leases = session.lease(60)
    dice.shuffle(leases)
    for lease in leases[:30]:
        session.complete(lease, result=json.dumps(dice.choice(texts)))
    session.fail(*leases[30:40], verdict="fail")
    session.release(*leases[40:50])
    everything = ids(session)
    assert len(everything) == 60

    for limit in (1, 4, 59, 60, 100):
        for limit_bytes in (1, 100, 7000, 20_000, 10_000_000):
            pages = paged(session, limit=limit, limit_bytes=limit_bytes)
            assert [id for page in pages for id in page] == everything, (limit, limit_bytes)
            assert all(0 < len(page) <= limit for page in pages)


@pytest.mark.parametrize("finished", [False, True])
def test_a_page_ends_with_the_task_that_makes_it_large(session: Session, finished: bool) -> None:
    session.enqueue_many(*(spec(payload={"x": "x" * 10_000}) for _ in range(10)))
    if finished:
        session.complete(*session.lease(10))

    pages = paged(session, limit=100, limit_bytes=30_000)

    assert [len(page) for page in pages] == [3, 3, 3, 1]


def test_results_count_as_payloads_do(session: Session) -> None:
    session.enqueue_many(*(spec() for _ in range(6)))
    session.complete(*session.lease(6), result=json.dumps("x" * 10_000))

    pages = paged(session, limit=100, limit_bytes=20_000)

    assert [len(page) for page in pages] == [2, 2, 2]


def test_what_a_page_leaves_out_is_not_fetched(session: Session) -> None:
    session.enqueue_many(*(spec(payload={"x": "x" * 10_000}) for _ in range(10)))
    command = ListTasks(Filter(states=frozenset({State.QUEUED})), 100, None, 30_000)

    statement = next(command.answer())
    assert isinstance(statement, Statement)
    sql = render(statement.name, "wherry", "dollar")
    with psycopg.RawCursor(session.connection) as cursor:
        cursor.execute(sql.text.encode(), [statement.params[name] for name in sql.names])
        assert cursor.rowcount == 3


def test_a_task_that_finishes_between_the_statements_is_shown_as_it_ended(
    session: Session, open_session: OpenSession
) -> None:
    session.enqueue_many(*(spec(payload={"x": "x" * 10_000}) for _ in range(6)))
    other = open_session()
    oldest_shown = other.lease(6)[4]

    page = session.call_around(
        ListTasks(Filter(), 100, None, 20_000),
        before="tasks/list_finished_tasks",
        act=lambda: other.complete(oldest_shown),
    )

    assert [task.state for task in page.tasks] == [State.LEASED, State.SUCCEEDED]
    assert page.after == oldest_shown.id
