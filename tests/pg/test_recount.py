"""A recount finds what was not counted, once, whoever else recounts at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import psycopg
import pytest

from tests.pg.flow import counted, roll, there
from tests.pg.support import OpenSession, Session, result_of
from wherry.commands.tally import RecountTasks
from wherry.testing import Clock

Blocked = Callable[[Session, Session], None]
RECOUNT = "select wherry.recount()"


def uncounted(session: Session) -> None:
    """Change tasks as code of before does."""
    session.enqueue("t")
    session.enqueue("t")
    session.rows("delete from wherry.flow")


@pytest.mark.parametrize("commits", [True, False])
def test_two_recounts_at_once_correct_it_once(
    session: Session,
    other: Session,
    until_blocked: Blocked,
    start: Callable[..., Future[Any]],
    commits: bool,
) -> None:
    uncounted(session)
    session.begin()
    first = session.value(RECOUNT)

    second = start(other.value, RECOUNT)
    until_blocked(other, session)
    session.rows("commit" if commits else "rollback")

    assert (first, result_of(second)) == (1, 0 if commits else 1)
    roll(session)
    assert counted(session) == there(session)


def test_a_recount_that_has_waited_too_long_to_see_the_other_is_refused(
    session: Session,
    open_session: OpenSession,
    until_blocked: Blocked,
    start: Callable[..., Future[Any]],
) -> None:
    # A role may have been given another level of isolation: what it sees is older than the lock.
    uncounted(session)
    other = open_session(default_transaction_isolation="repeatable\\ read")
    session.begin()
    session.rows(RECOUNT)

    second = start(other.value, RECOUNT)
    until_blocked(other, session)
    session.commit()

    with pytest.raises(psycopg.errors.SerializationFailure):
        result_of(second)
    roll(session)
    assert counted(session) == there(session)


def test_however_many_tasks_there_are_they_are_recounted(session: Session) -> None:
    uncounted(session)
    # As PostgreSQL would say of so many.
    session.rows("update pg_class set reltuples = 1e10 where oid = 'wherry.live'::regclass")
    session.rows("update wherry.chore set due_at = '-infinity'")

    assert session.call(RecountTasks()) == 1
    roll(session)
    assert counted(session) == there(session)


def test_few_tasks_are_recounted_again_after_some_minutes(session: Session, clock: Clock) -> None:
    uncounted(session)
    session.rows("update wherry.chore set due_at = '-infinity'")
    session.call(RecountTasks())
    uncounted(session)

    assert session.call(RecountTasks()) == 0
    clock.advance(minutes=6)
    assert session.call(RecountTasks()) == 1
