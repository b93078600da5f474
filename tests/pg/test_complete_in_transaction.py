"""A complete inside the caller's transaction: the task is done if and only if that one commits.

A lost lease raises there, since a value would be overlooked and the effects committed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import psycopg
import pytest

from tests.pg.support import Session, result_of, spec
from wherry.commands.leases import CompleteInTransaction
from wherry.domain.lease import Lease, Reported
from wherry.domain.outcome import Completed
from wherry.domain.state import State
from wherry.errors import LeaseLost
from wherry.testing import Clock

LEASE_ID = "00000000-0000-4000-8000-000000000001"


@pytest.fixture(autouse=True)
def effects(session: Session) -> None:
    """A table of the caller's own."""
    session.rows("create table effect (task_id bigint)")


def finish(session: Session, lease: Lease, result: str | None = None) -> None:
    session.rows("insert into effect values (%s)", lease.id)
    session.call(CompleteInTransaction(Completed(lease, result)))


def leased(session: Session, n: int = 1) -> list[Lease]:
    session.enqueue_many(*(spec() for _ in range(n)))
    return session.lease(n)


def test_effects_and_completion_commit_together(session: Session) -> None:
    [lease] = leased(session)
    session.begin()

    finish(session, lease, result='{"n": 1}')
    session.commit()

    task = session.task(lease.id)
    assert (task.state, task.result, task.worker) == (State.SUCCEEDED, {"n": 1}, "w")
    assert session.value("select count(*) from effect") == 1


def test_effects_and_completion_are_rolled_back_together(session: Session) -> None:
    [lease] = leased(session)
    before = session.dump()
    session.begin()
    finish(session, lease)

    session.rollback()

    assert session.dump() == before
    assert session.value("select count(*) from effect") == 0


def test_a_completion_in_a_savepoint_goes_with_the_savepoint(session: Session) -> None:
    [lease] = leased(session)
    session.begin()
    session.rows("savepoint s")
    finish(session, lease)

    session.rows("rollback to savepoint s")
    session.commit()

    assert session.task(lease.id).state is State.LEASED
    assert session.value("select count(*) from effect") == 0


@pytest.mark.parametrize("wrong", ["token", "lease_id", "id", "queue"])
def test_a_wrong_fence_raises_and_changes_nothing(session: Session, wrong: str) -> None:
    [lease] = leased(session)
    value = {"lease_id": LEASE_ID, "queue": "other"}.get(wrong)
    setattr(lease, wrong, value or getattr(lease, wrong) + 1)
    before = session.dump()
    session.begin()

    with pytest.raises(LeaseLost) as caught:
        finish(session, lease)

    # Not an error of PostgreSQL: the transaction is the caller's to end.
    session.commit()
    assert caught.value.task_id == lease.id
    assert session.dump() == before


def test_a_lease_that_was_reaped_and_leased_again_by_the_same_worker_raises(
    session: Session, clock: Clock
) -> None:
    [stale] = leased(session)
    clock.advance(seconds=31)
    session.reap()
    clock.advance(seconds=10)
    session.promote()
    session.lease_one(worker="w")
    session.begin()

    with pytest.raises(LeaseLost):
        finish(session, stale)

    session.rollback()
    assert session.value("select count(*) from effect") == 0


def test_twice_in_one_transaction_raises_the_second_time(session: Session) -> None:
    [lease] = leased(session)
    session.begin()
    finish(session, lease)

    with pytest.raises(LeaseLost):
        finish(session, lease)

    session.rollback()


def test_the_reaper_leaves_a_task_that_an_open_transaction_completes(
    session: Session, other: Session, clock: Clock
) -> None:
    [lease] = leased(session)
    other.begin()
    finish(other, lease)
    clock.advance(seconds=31)

    assert len(session.reap()) == 0

    other.commit()
    assert session.task(lease.id).state is State.SUCCEEDED


def test_a_completion_that_is_rolled_back_late_leaves_the_task_to_the_reaper(
    session: Session, other: Session, clock: Clock
) -> None:
    [lease] = leased(session)
    other.begin()
    finish(other, lease)
    clock.advance(seconds=31)
    session.reap()

    other.rollback()

    assert session.reap().queued == (lease.id,)


def test_it_waits_for_a_reap_under_way_and_is_refused(
    session: Session,
    other: Session,
    clock: Clock,
    start: Callable[..., Future[Any]],
    until_blocked: Callable[[Session, Session], None],
) -> None:
    [lease] = leased(session)
    clock.advance(seconds=31)
    session.begin()
    session.reap()
    other.begin()
    call = start(finish, other, lease)
    until_blocked(other, session)

    session.commit()

    with pytest.raises(LeaseLost):
        result_of(call)
    other.rollback()


def test_it_delays_no_heartbeat_report_or_reap_of_its_neighbours(
    session: Session, other: Session, clock: Clock
) -> None:
    leases = leased(session, 4)
    other.begin()
    finish(other, leases[0])
    session.rows("set lock_timeout = '1ms'")

    assert session.heartbeat(*leases) == [Reported.EXTENDED] * 4
    assert session.complete(leases[1], closed=[leases[1].lease_id]) == [Reported.DONE]
    assert session.fail(leases[2]) == [Reported.REQUEUED]
    clock.advance(seconds=31)
    assert session.reap().queued == (leases[3].id,)
    assert session.lease_one().id == leases[2].id

    other.commit()
    assert session.complete(leases[0]) == [Reported.ALREADY_DONE]


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_heartbeat_after_the_snapshot_is_no_serialization_failure(
    session: Session, other: Session, clock: Clock, isolation: str
) -> None:
    [lease] = leased(session)
    other.begin(isolation)
    other.rows("select 1 from effect")
    clock.advance(seconds=20)
    session.heartbeat(lease)

    finish(other, lease)
    other.commit()

    assert session.task(lease.id).state is State.SUCCEEDED


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_task_reaped_after_the_snapshot_is_never_completed(
    session: Session, other: Session, clock: Clock, isolation: str
) -> None:
    [lease] = leased(session)
    other.begin(isolation)
    other.rows("select 1 from effect")
    clock.advance(seconds=31)
    session.reap()

    with pytest.raises(psycopg.errors.SerializationFailure):
        finish(other, lease)

    other.rollback()
    assert session.task(lease.id).state is State.QUEUED


def test_a_failure_reported_after_the_commit_is_answered_already_done(session: Session) -> None:
    [lease] = leased(session)
    session.begin()
    finish(session, lease)
    session.commit()
    before = session.dump("live", "finished", "attempt")

    assert session.fail(lease) == [Reported.ALREADY_DONE]

    assert session.dump("live", "finished", "attempt") == before
