"""Snooze and release give a task back without counting the attempt, up to a limit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pg.support import Session, spec
from wherry.commands.leases import GiveBackTasks
from wherry.config import MAX_RELEASES, MAX_SNOOZES
from wherry.domain.lease import Lease, Reported
from wherry.domain.outcome import GivenBack
from wherry.domain.state import State
from wherry.testing import Clock

ALREADY_DONE, BUSY, LOST = Reported.ALREADY_DONE, Reported.BUSY, Reported.LOST
CANCELED, DEAD, REQUEUED = Reported.CANCELED, Reported.DEAD, Reported.REQUEUED
LEASE_ID = "00000000-0000-4000-8000-000000000001"


def leased(session: Session, n: int = 1, **options: Any) -> list[Lease]:
    session.enqueue_many(*(spec(**options) for _ in range(n)))
    return session.lease(n)


def give_back(session: Session, verdict: str, *leases: Lease) -> list[Reported]:
    return session.release(*leases) if verdict == "release" else session.snooze(*leases)


@pytest.fixture(params=["release", "snooze"])
def verdict(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_attempt_is_not_counted_and_the_token_kept(session: Session, verdict: str) -> None:
    [lease] = leased(session, max_attempts=1)

    assert give_back(session, verdict, lease) == [REQUEUED]

    task = session.task(lease.id)
    assert (task.state, task.attempts, task.token, task.history) == (State.QUEUED, 0, 1, ())
    again = session.lease_one()
    assert (again.attempt, again.token) == (1, 2)


def test_nothing_of_the_attempt_stays(session: Session, clock: Clock, verdict: str) -> None:
    """DBL-14: What is given back carries nothing of its attempt along."""
    [lease] = leased(session)
    give_back(session, verdict, lease)
    clock.advance(seconds=61)

    again = session.lease_one()

    assert again.leased_at > lease.leased_at
    assert again.attempt == 1
    assert len(session.reap()) == 0
    assert session.complete(again) == [Reported.DONE]


def test_a_released_task_is_ready_at_once_without_started_at(session: Session) -> None:
    [lease] = leased(session)

    session.release(lease)

    task = session.task(lease.id)
    assert (task.started_at, task.worker, task.lease_expires_at) == (None, None, None)


def test_a_snoozed_task_waits_for_its_time(session: Session, clock: Clock) -> None:
    [lease] = leased(session)

    assert session.snooze(lease, delay=60) == [REQUEUED]

    assert session.lease() == []
    clock.advance(seconds=61)
    session.promote()
    assert session.lease_one().snoozes == 1


def test_a_task_snoozed_too_often_is_dead(session: Session) -> None:
    [lease] = leased(session)
    session.rows("update wherry.live set snoozes = %s", MAX_SNOOZES - 1)
    assert session.snooze(lease) == [REQUEUED]

    assert session.snooze(session.lease_one()) == [DEAD]

    task = session.task(lease.id)
    assert (task.state, task.reason) == (State.DEAD, "snoozed too often")
    assert MAX_SNOOZES == 1000


def test_releases_beyond_the_limit_count_as_attempts_until_the_task_is_dead(
    session: Session,
) -> None:
    [lease] = leased(session, max_attempts=2)
    session.rows("update wherry.live set releases = %s", MAX_RELEASES - 1)
    assert session.release(lease) == [REQUEUED]
    assert session.task(lease.id).attempts == 0

    assert session.release(session.lease_one()) == [REQUEUED]
    assert session.task(lease.id).attempts == 1
    assert session.release(session.lease_one()) == [DEAD]

    task = session.task(lease.id)
    assert (task.state, task.attempts, task.reason) == (State.DEAD, 2, "released too often")
    assert MAX_RELEASES == 100


def test_a_task_that_is_always_released_ends_in_bounded_time(session: Session) -> None:
    id_ = session.enqueue(max_attempts=3)
    leases = 0

    while found := session.lease():
        leases += 1
        session.release(*found)

    assert leases == MAX_RELEASES + 3
    assert session.task(id_).state is State.DEAD


def test_a_task_whose_cancel_was_asked_for_ends_canceled(session: Session, verdict: str) -> None:
    [lease] = leased(session)
    session.cancel(lease.id)

    assert give_back(session, verdict, lease) == [CANCELED]

    task = session.task(lease.id)
    assert (task.state, task.reason) == (State.CANCELED, "canceled while it ran")


@pytest.mark.parametrize("wrong", ["token", "lease_id", "id", "queue"])
def test_a_wrong_fence_changes_nothing(session: Session, verdict: str, wrong: str) -> None:
    [lease] = leased(session)
    value = {"lease_id": LEASE_ID, "queue": "other"}.get(wrong)
    setattr(lease, wrong, value or getattr(lease, wrong) + 1)
    before = session.dump()

    assert give_back(session, verdict, lease) == [LOST]

    assert session.dump() == before


def test_it_is_refused_after_the_lease_ran_out(
    session: Session, clock: Clock, verdict: str
) -> None:
    [lease] = leased(session)
    clock.advance(seconds=31)
    before = session.dump()

    assert give_back(session, verdict, lease) == [LOST]

    assert session.dump() == before


def test_sent_again_it_is_answered_already_done(session: Session, verdict: str) -> None:
    [lease] = leased(session)
    give_back(session, verdict, lease)
    before = session.dump()

    assert give_back(session, verdict, lease) == [ALREADY_DONE]

    assert session.dump() == before


def test_after_the_next_lease_it_is_lost_and_changes_nothing(
    session: Session, verdict: str
) -> None:
    [lease] = leased(session)
    give_back(session, verdict, lease)
    session.lease_one()
    before = session.dump()

    assert give_back(session, verdict, lease) == [LOST]

    assert session.dump() == before


def test_after_a_failure_of_the_same_lease_it_is_refused(session: Session, verdict: str) -> None:
    [lease] = leased(session)
    session.fail(lease, after=60)
    before = session.dump()

    assert give_back(session, verdict, lease) == [LOST]

    assert session.dump() == before


def test_a_lease_given_back_twice_in_one_call_is_given_back_once(
    session: Session, verdict: str
) -> None:
    [lease] = leased(session)

    assert give_back(session, verdict, lease, lease) == [REQUEUED, ALREADY_DONE]

    assert session.task(lease.id).attempts == 0


def test_the_first_of_two_outcomes_of_one_lease_in_a_call_counts(session: Session) -> None:
    leases = leased(session, 20)
    outcomes = [
        outcome
        for lease in leases
        for outcome in (GivenBack(lease, "snooze", 60.0), GivenBack(lease, "release"))
    ]

    session.call(GiveBackTasks(tuple(outcomes)))

    assert session.value("select count(*) from wherry.live where state = 'delayed'") == 20
    assert session.value("select sum(snoozes) - sum(releases) from wherry.live") == 20


def test_one_bad_lease_does_not_spoil_its_neighbours(session: Session, verdict: str) -> None:
    leases = leased(session, 4)
    session.complete(leases[1])
    leases[2].token += 1

    answers = give_back(session, verdict, *leases)

    # The second task is over, by this very lease.
    assert answers == [REQUEUED, ALREADY_DONE, LOST, REQUEUED]


def test_a_task_that_an_open_transaction_settles_is_busy(
    session: Session, other: Session, verdict: str
) -> None:
    one, two = leased(session, 2)
    other.begin()
    other.complete(one)

    assert give_back(session, verdict, one, two) == [BUSY, REQUEUED]

    other.rollback()


def test_a_requeued_task_starts_again_with_all_its_snoozes_and_releases(session: Session) -> None:
    [lease] = leased(session)
    session.rows("update wherry.live set snoozes = %s, releases = %s", MAX_SNOOZES, MAX_RELEASES)
    session.snooze(lease)

    session.requeue(lease.id)

    assert session.snooze(session.lease_one()) == [REQUEUED]
