"""What has not started within its time to live ends, once, as canceled: `expired`."""

from __future__ import annotations

import pytest

from tests.pg.support import Session, spec
from wherry.commands.maintenance import DiscardTasks
from wherry.domain.lease import Reported
from wherry.domain.state import State
from wherry.testing import Clock


def test_a_queued_task_past_its_time_is_canceled_as_expired(session: Session, clock: Clock) -> None:
    id_, fresh = session.enqueue(ttl=60, key="k"), session.enqueue(ttl=600)
    clock.advance(seconds=61)

    assert session.call(DiscardTasks()).ids == (id_,)

    task = session.task(id_)
    assert (task.state, task.reason, task.attempts, task.key) == (
        State.CANCELED, "expired", 0, "k",
    )  # fmt: skip
    assert session.task(fresh).state is State.QUEUED
    assert session.call(DiscardTasks()).ids == ()


@pytest.mark.parametrize("ttl", [0.4, 1.0, 0.000001])
def test_a_time_to_live_is_kept_to_the_microsecond(
    session: Session, clock: Clock, ttl: float
) -> None:
    """RET-09."""
    id_ = session.enqueue(ttl=ttl)
    exact = session.value("select discard_at - created_at from wherry.live").total_seconds()
    assert exact == pytest.approx(ttl, abs=1e-6)

    clock.advance(seconds=2)

    assert session.lease() == []
    assert session.call(DiscardTasks()).ids == (id_,)


def test_a_delayed_task_may_expire_before_it_is_due(session: Session, clock: Clock) -> None:
    id_ = session.enqueue(ttl=60, delay=3600)
    clock.advance(seconds=61)

    assert session.call(DiscardTasks()).ids == (id_,)


def test_a_task_that_runs_is_let_run(session: Session, clock: Clock) -> None:
    session.enqueue(ttl=10)
    lease = session.lease_one(seconds=3600)
    clock.advance(seconds=61)

    assert session.call(DiscardTasks()).ids == ()

    assert session.complete(lease) == [Reported.DONE]


def test_a_failed_task_past_its_time_is_not_retried(session: Session, clock: Clock) -> None:
    session.enqueue(ttl=10)
    lease = session.lease_one(seconds=3600)
    clock.advance(seconds=61)
    session.fail(lease)

    assert session.lease() == []
    assert session.call(DiscardTasks()).ids == (lease.id,)
    assert len(session.task(lease.id).history) == 1


def test_a_task_locked_by_somebody_else_is_passed_over(
    session: Session, other: Session, clock: Clock
) -> None:
    locked, free = session.enqueue(ttl=10), session.enqueue(ttl=10)
    other.begin()
    other.cancel(locked)
    clock.advance(seconds=11)

    assert session.call(DiscardTasks()).ids == (free,)

    other.commit()
    assert session.task(locked).reason == "canceled while it was queued"


def test_a_batch_is_bounded(session: Session, clock: Clock) -> None:
    session.enqueue_many(*(spec(ttl=10) for _ in range(5)))
    clock.advance(seconds=11)

    assert [len(session.call(DiscardTasks(2)).ids) for _ in range(4)] == [2, 2, 1, 0]
