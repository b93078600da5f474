"""Purge deletes finished tasks for good, with their history and the keys that name them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tests.pg.support import Session, result_of
from wherry.testing import Clock


def dead(session: Session, **options: Any) -> int:
    id_ = session.enqueue(max_attempts=1, **options)
    session.fail(session.lease_one())
    return id_


def test_task_history_and_key_are_gone(session: Session) -> None:
    id_ = dead(session, key="k")

    assert session.purge(id_) == [id_]

    assert {table: rows for table, rows in session.dump().items() if rows} == {}
    assert session.find(id_) is None
    assert session.enqueued(key="k").created


def test_live_and_unknown_tasks_are_left_alone(session: Session) -> None:
    queued, leased = session.enqueue(key="k"), session.enqueue(priority=9)
    session.lease()
    before = session.dump()

    assert session.purge(queued, leased, 10**12) == []

    assert session.dump() == before


def test_a_key_that_names_another_task_meanwhile_stays(session: Session, clock: Clock) -> None:
    old = dead(session, key="k", key_ttl=60)
    clock.advance(seconds=61)
    new = session.enqueue(key="k")

    session.purge(old)

    assert session.enqueued(key="k").id == new


def test_a_task_that_is_being_requeued_is_passed_over(session: Session, other: Session) -> None:
    one, two = dead(session), dead(session)
    other.begin()
    other.requeue(one)

    assert session.purge(one, two) == [two]

    other.commit()
    assert session.lease_one().id == one


@pytest.mark.parametrize("commits", [True, False])
def test_a_takeover_of_the_key_under_way_is_waited_for(
    session: Session,
    other: Session,
    clock: Clock,
    start: Callable[..., Future[Any]],
    until_blocked: Callable[[Session, Session], None],
    commits: bool,
) -> None:
    old = dead(session, key="k", key_ttl=60)
    clock.advance(seconds=61)
    other.begin()
    new = other.enqueue(key="k")
    call = start(session.purge, old)
    until_blocked(session, other)

    other.rows("commit" if commits else "rollback")

    assert result_of(call) == [old]
    assert session.enqueued(key="k").created is not commits
    assert (session.find(new) is not None) is commits
    assert session.value("select count(*) from wherry.key") == 1


def test_keys_are_taken_in_their_order_so_that_no_enqueuer_deadlocks_with_a_purge(
    session: Session,
    other: Session,
    clock: Clock,
    start: Callable[..., Future[Any]],
    until_blocked: Callable[[Session, Session], None],
) -> None:
    keys = [f"k{n:02}" for n in range(40)]
    # Stored from the last to the first, so that no order of the rows is that of the keys.
    ids = [dead(session, key=key, key_ttl=60) for key in reversed(keys)]
    clock.advance(seconds=61)
    other.begin()
    other.enqueue(key=keys[0])
    call = start(session.purge, *ids)
    until_blocked(session, other)

    # The purge waits for the first key, and so must not hold any later one.
    for key in keys[1:]:
        assert other.enqueued(key=key).created
    other.commit()

    assert len(result_of(call)) == 40
    assert session.value("select count(*) from wherry.live") == 40
