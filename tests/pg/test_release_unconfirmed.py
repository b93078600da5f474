"""What nobody has confirmed by extending it goes back as if it had never been leased."""

from __future__ import annotations

import pytest

from tests.pg.support import Session, spec
from wherry.commands.leases import LeaseForPollers, ReleaseUnconfirmed
from wherry.config import MAX_RELEASES
from wherry.domain.lease import Lease, Poller, Reported
from wherry.domain.state import State
from wherry.testing import Clock

REQUEUED, LOST = Reported.REQUEUED, Reported.LOST


def release(session: Session, *leases: Lease, seconds: float = 30.0) -> list[Reported]:
    return session.call(ReleaseUnconfirmed(leases, (seconds,) * len(leases)))


def test_what_was_never_extended_goes_back_and_the_attempt_does_not_count(
    session: Session,
) -> None:
    session.enqueue_many(*(spec() for _ in range(3)))
    leases = session.lease(3)

    assert release(session, *leases) == [REQUEUED] * 3

    tasks = [session.task(lease.id) for lease in leases]
    assert {(task.state, task.attempts) for task in tasks} == {(State.QUEUED, 0)}
    assert session.dump("lease", "attempt") == {"lease": [], "attempt": []}
    assert [lease.id for lease in session.lease(9)] == [lease.id for lease in leases]


def test_what_was_extended_is_left_alone(session: Session, clock: Clock) -> None:
    session.enqueue()
    lease = session.lease_one()
    clock.advance(seconds=1)
    session.heartbeat(lease)

    assert release(session, lease) == [LOST]

    assert session.task(lease.id).state is State.LEASED
    assert session.complete(lease) == [Reported.DONE]


def test_what_was_beaten_for_less_than_was_left_is_left_alone(session: Session) -> None:
    """However soon, and through whichever server: only the database knows of that."""
    session.enqueue_many(*(spec() for _ in range(3)))
    first, second, third = session.lease(3, seconds=60)
    assert session.heartbeat(second, seconds=1) == [Reported.EXTENDED]

    assert release(session, first, second, third, seconds=60) == [REQUEUED, LOST, REQUEUED]

    assert session.complete(second) == [Reported.DONE]


@pytest.mark.parametrize("seconds", [1.0, 1.1, 4 / 3, 29.999999999, 86_399.0000005])
def test_a_lease_of_any_length_goes_back_and_not_once_it_was_beaten(
    session: Session, seconds: float
) -> None:
    """The end is compared exactly: no rounding on the way may make a difference."""
    session.enqueue_many(*(spec() for _ in range(2)))
    mine = session.lease_one(seconds=seconds)
    [[dealt]] = session.call(LeaseForPollers("default", None, (Poller("w", 1, None, seconds),)))

    assert release(session, mine, dealt, seconds=seconds) == [REQUEUED] * 2

    again = session.lease_one(seconds=seconds)
    session.heartbeat(again, seconds=0.001)
    assert release(session, again, seconds=seconds) == [LOST]


def test_of_one_lease_only_the_tasks_that_were_not_extended_go_back(
    session: Session, clock: Clock
) -> None:
    session.enqueue_many(*(spec() for _ in range(3)))
    first, second, third = session.lease(3)
    clock.advance(seconds=1)
    session.heartbeat(second)

    assert release(session, first, second, third) == [REQUEUED, LOST, REQUEUED]

    assert session.heartbeat(first, second, third) == [LOST, Reported.EXTENDED, LOST]


def test_what_was_reported_or_is_somebody_elses_is_left_alone(
    session: Session, clock: Clock
) -> None:
    session.enqueue_many(*(spec() for _ in range(3)))
    done, failed, reaped = session.lease(3)
    session.complete(done)
    session.fail(failed, after=60)
    clock.advance(seconds=31)
    session.reap()
    before = session.dump()

    assert release(session, done, failed, reaped) == [LOST] * 3

    assert session.dump() == before


def test_a_lease_that_has_run_out_is_the_reapers(session: Session, clock: Clock) -> None:
    session.enqueue()
    lease = session.lease_one()
    clock.advance(seconds=31)

    assert release(session, lease) == [LOST]

    assert session.reap().queued == (lease.id,)


def test_each_lease_is_judged_by_the_time_it_was_given_for(session: Session) -> None:
    session.enqueue_many(*(spec() for _ in range(2)))
    short = session.lease_one(seconds=10)
    long = session.lease_one(seconds=60)

    command = ReleaseUnconfirmed((short, long), (5.0, 60.0))

    assert session.call(command) == [LOST, REQUEUED]


def test_a_canceled_task_is_canceled_instead(session: Session) -> None:
    session.enqueue()
    lease = session.lease_one()
    session.cancel(lease.id)

    assert release(session, lease) == [Reported.CANCELED]


def test_a_task_that_is_released_without_end_counts_its_attempts_at_last(session: Session) -> None:
    id_ = session.enqueue()
    session.rows("update wherry.live set releases = %s", MAX_RELEASES)
    lease = session.lease_one()

    assert release(session, lease) == [REQUEUED]

    assert session.task(id_).attempts == 1


def test_a_heartbeat_that_is_under_way_wins(session: Session, other: Session, clock: Clock) -> None:
    session.enqueue()
    lease = session.lease_one()
    clock.advance(seconds=1)
    other.begin()
    other.heartbeat(lease)

    assert release(session, lease) == [LOST]

    other.commit()
    assert session.complete(lease) == [Reported.DONE]


def test_a_heartbeat_that_comes_second_is_told_to_ask_again_and_then_that_it_is_lost(
    session: Session, other: Session
) -> None:
    session.enqueue()
    lease = session.lease_one()
    session.begin()
    release(session, lease)

    assert other.heartbeat(lease) == [Reported.BUSY]

    session.commit()
    assert other.heartbeat(lease) == [LOST]


def test_nothing_is_released_of_no_leases(session: Session) -> None:
    assert release(session) == []
