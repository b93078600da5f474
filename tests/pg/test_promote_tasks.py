"""Delayed tasks become ready when they are due, in order, with no bad row in the way."""

from __future__ import annotations

import pytest

from tests.pg.support import Session, spec
from wherry.testing import Clock


def test_only_what_is_due_is_promoted_and_the_next_moment_told(
    session: Session, clock: Clock
) -> None:
    soon, late = session.enqueue(delay=10), session.enqueue(delay=600)
    clock.advance(seconds=11)

    answer = session.promote()

    assert answer.promoted == 1
    assert answer.next_in is not None
    assert 580 < answer.next_in < 590
    assert [lease.id for lease in session.lease(9)] == [soon]
    assert session.task(late).state == "queued"


def test_with_nothing_delayed_there_is_no_next_moment(session: Session) -> None:
    session.enqueue()

    answer = session.promote()

    assert (answer.promoted, answer.next_in) == (0, None)


def test_a_batch_is_bounded_and_the_rest_follows(session: Session, clock: Clock) -> None:
    session.enqueue_many(*(spec(delay=10) for _ in range(10)))
    clock.advance(seconds=11)

    assert [session.promote(batch=4).promoted for _ in range(4)] == [4, 4, 2, 0]


def test_a_row_that_is_locked_is_passed_over(
    session: Session, other: Session, clock: Clock
) -> None:
    locked, free = session.enqueue(delay=10), session.enqueue(delay=10)
    other.begin()
    other.cancel(locked)
    clock.advance(seconds=11)

    assert session.promote().promoted == 1
    assert [lease.id for lease in session.lease(9)] == [free]

    other.rollback()
    assert session.promote().promoted == 1


def test_one_task_that_nobody_can_read_keeps_no_other_from_its_turn(
    session: Session, clock: Clock
) -> None:
    tasks = session.enqueue_many(*(spec(delay=10) for _ in range(10)))
    session.rows(
        "update wherry.live set payload = %s::text::json, retry = %s::text::json,"
        " headers = '[]', type = repeat('x', 255) where id = %s",
        '"\\u0000"', '{"kind": "\\ud800"}', tasks[3].id,
    )  # fmt: skip
    clock.advance(seconds=11)

    assert session.promote().promoted == 10

    assert len(session.lease(10)) == 10


def test_a_key_never_conflicts_with_its_own_task(session: Session, clock: Clock) -> None:
    """IDM-07."""
    id_ = session.enqueue(key="k", key_ttl=0, delay=10)
    assert session.enqueued(key="k").id == id_
    clock.advance(seconds=11)
    session.promote()
    session.fail(session.lease_one(), after=10)
    assert session.enqueued(key="k").id == id_
    clock.advance(seconds=11)
    session.promote()

    lease = session.lease_one()

    assert (lease.id, lease.attempt) == (id_, 2)
    session.complete(lease)
    assert session.enqueued(key="k").created


@pytest.mark.parametrize("commits", [True, False])
def test_two_promoters_at_once_promote_each_task_once(
    session: Session, other: Session, clock: Clock, commits: bool
) -> None:
    session.enqueue_many(*(spec(delay=10) for _ in range(10)))
    clock.advance(seconds=11)
    session.begin()
    assert session.promote(batch=6).promoted == 6

    assert other.promote().promoted == 4

    session.rows("commit" if commits else "rollback")
    assert session.promote().promoted == (0 if commits else 6)
    assert len(session.lease(20)) == 10
