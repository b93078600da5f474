"""Cancel ends what is queued and asks the holder of what is leased.

Exactly one of cancel, complete and lease wins.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tests.pg.support import Session, result_of, spec
from wherry.commands.maintenance import ParkTasks
from wherry.commands.workers import BeatWorker
from wherry.domain.lease import Reported
from wherry.domain.state import State
from wherry.domain.task import Canceled
from wherry.testing import Clock

CANCELED, FINAL, REQUESTED, UNKNOWN = (
    Canceled.CANCELED,
    Canceled.FINAL,
    Canceled.REQUESTED,
    Canceled.UNKNOWN,
)
UUID = "00000000-0000-4000-8000-000000000001"


def test_a_queued_task_is_canceled_at_once_with_the_reason(session: Session) -> None:
    """CAN-06."""
    id_ = session.enqueue(key="k", tags=["x"])

    assert session.cancel(id_, reason="by mistake") == [CANCELED]

    task = session.task(id_)
    assert (task.state, task.reason, task.attempts) == (State.CANCELED, "by mistake", 0)
    assert (task.key, task.tags, task.worker) == ("k", ("x",), None)
    assert session.lease() == []


def test_delayed_and_parked_tasks_are_queued_too(session: Session) -> None:
    delayed, parked = session.enqueue(delay=60), session.enqueue("unknown")
    session.call(BeatWorker(instance=UUID, name="w", host="h", pid=1, queues=None, types=("t",)))
    session.call(ParkTasks("default"))

    assert session.cancel(delayed, parked) == [CANCELED, CANCELED]


def test_a_leased_task_is_only_marked_and_its_complete_still_wins(session: Session) -> None:
    session.enqueue()
    lease = session.lease_one()

    assert session.cancel(lease.id) == [REQUESTED]

    assert session.task(lease.id).state is State.LEASED
    assert session.task(lease.id).cancel_requested_at is not None
    assert session.complete(lease) == [Reported.DONE]
    assert session.task(lease.id).state is State.SUCCEEDED


@pytest.mark.parametrize("end", ["fail", "release", "snooze", "lose"])
def test_the_reason_of_a_request_is_the_reason_of_the_end(
    session: Session, clock: Clock, end: str
) -> None:
    session.enqueue()
    lease = session.lease_one()
    session.cancel(lease.id, reason="ordered twice")
    session.cancel(lease.id, reason="a later reason")

    match end:
        case "fail":
            session.fail(lease, verdict="cancel", reason="as I was asked to")
        case "release":
            session.release(lease)
        case "snooze":
            session.snooze(lease)
        case _:
            clock.advance(seconds=31)
            session.reap()

    task = session.task(lease.id)
    assert (task.state, task.reason) == (State.CANCELED, "ordered twice")


def test_the_reason_of_an_old_request_is_forgotten_by_a_requeue(session: Session) -> None:
    session.enqueue()
    lease = session.lease_one()
    session.cancel(lease.id, reason="ordered twice")
    session.fail(lease)
    session.requeue(lease.id)
    again = session.lease_one()
    session.cancel(again.id)

    session.fail(again)

    assert session.task(lease.id).reason == "canceled while it ran"


def test_a_second_request_keeps_the_moment_of_the_first(session: Session, clock: Clock) -> None:
    session.enqueue()
    lease = session.lease_one()
    session.cancel(lease.id)
    first = session.task(lease.id).cancel_requested_at
    clock.advance(seconds=10)

    assert session.cancel(lease.id) == [REQUESTED]

    assert session.task(lease.id).cancel_requested_at == first


def test_a_canceled_task_whose_worker_dies_ends_canceled_not_retried(
    session: Session, clock: Clock
) -> None:
    """CAN-07."""
    session.enqueue()
    lease = session.lease_one()
    session.cancel(lease.id)
    clock.advance(seconds=31)

    assert session.reap().canceled == (lease.id,)

    assert session.task(lease.id).state is State.CANCELED


def test_finished_and_unknown_tasks_are_answered_so_and_left_alone(session: Session) -> None:
    session.enqueue()
    done = session.lease_one()
    session.complete(done)
    queued = session.enqueue()
    before = session.dump("finished")

    answers = session.cancel(10**12, done.id, queued)

    assert answers == [UNKNOWN, FINAL, CANCELED]
    assert [row for row in session.dump("finished")["finished"] if row["id"] == done.id] == (
        before["finished"]
    )


def test_a_cancel_leaves_no_mark_for_a_task_that_comes_later(session: Session) -> None:
    """CAN-01."""
    coming = session.enqueue(queue="elsewhere") + 1

    assert session.cancel(coming) == [UNKNOWN]

    assert session.enqueue() == coming
    assert session.task(coming).cancel_requested_at is None
    session.complete(session.lease_one())
    assert session.task(coming).state == "succeeded"


def test_an_id_named_twice_is_canceled_once(session: Session) -> None:
    id_ = session.enqueue()

    assert session.cancel(id_, id_) == [CANCELED, CANCELED]

    assert session.value("select count(*) from wherry.finished") == 1


@pytest.mark.parametrize("commits", [True, False])
def test_a_cancel_waits_for_a_lease_under_way(
    session: Session,
    other: Session,
    start: Callable[..., Future[Any]],
    until_blocked: Callable[[Session, Session], None],
    commits: bool,
) -> None:
    id_ = session.enqueue()
    other.begin()
    other.lease_one()
    call = start(session.cancel, id_)
    until_blocked(session, other)

    other.rows("commit" if commits else "rollback")

    assert result_of(call) == [REQUESTED if commits else CANCELED]


@pytest.mark.parametrize("commits", [True, False])
def test_a_cancel_waits_for_a_complete_under_way(
    session: Session,
    other: Session,
    start: Callable[..., Future[Any]],
    until_blocked: Callable[[Session, Session], None],
    commits: bool,
) -> None:
    session.enqueue()
    lease = session.lease_one()
    other.begin()
    other.complete(lease)
    call = start(session.cancel, lease.id)
    until_blocked(session, other)

    other.rows("commit" if commits else "rollback")

    assert result_of(call) == [FINAL if commits else REQUESTED]
    assert session.task(lease.id).state is (State.SUCCEEDED if commits else State.LEASED)


def test_a_lease_passes_over_a_task_whose_cancel_is_under_way(
    session: Session, other: Session
) -> None:
    first, second = session.enqueue(), session.enqueue()
    other.begin()
    other.cancel(first)

    assert [lease.id for lease in session.lease(9)] == [second]

    other.rollback()
    assert [lease.id for lease in session.lease(9)] == [first]


def test_two_cancels_of_many_tasks_in_opposite_orders_do_not_deadlock(
    session: Session,
    other: Session,
    start: Callable[..., Future[Any]],
    until_blocked: Callable[[Session, Session], None],
) -> None:
    ids = [task.id for task in session.enqueue_many(*(spec() for _ in range(20)))]
    other.begin()
    other.cancel(*ids)
    call = start(session.cancel, *reversed(ids))
    until_blocked(session, other)

    other.commit()

    assert result_of(call) == [FINAL] * 20


def test_a_canceled_task_keeps_its_key_for_its_time(session: Session, clock: Clock) -> None:
    id_ = session.enqueue(key="k", key_ttl=60)
    session.cancel(id_)

    assert session.enqueued(key="k").id == id_
    clock.advance(seconds=61)
    assert session.enqueued(key="k").created
