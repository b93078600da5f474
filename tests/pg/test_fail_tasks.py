"""A failed attempt is recorded once: retried while attempts remain, else the task ends.

Every attempt that did not succeed has its row in the history, written with the change of state.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.pg.support import Session, spec
from wherry.commands.leases import FailTasks
from wherry.domain.failure import Failure
from wherry.domain.lease import Lease, Reported
from wherry.domain.outcome import Failed
from wherry.domain.state import State
from wherry.testing import Clock

ALREADY_DONE, BUSY, LOST = Reported.ALREADY_DONE, Reported.BUSY, Reported.LOST
REQUEUED, DEAD = Reported.REQUEUED, Reported.DEAD
LEASE_ID = "00000000-0000-4000-8000-000000000001"


def leased(session: Session, n: int = 1, **options: Any) -> list[Lease]:
    session.enqueue_many(*(spec(**options) for _ in range(n)))
    return session.lease(n)


def test_a_failed_task_waits_for_its_retry(session: Session, clock: Clock) -> None:
    [lease] = leased(session)

    assert session.fail(lease, after=60) == [REQUEUED]

    task = session.task(lease.id)
    assert (task.state, task.attempts, task.error) == (State.QUEUED, 1, "ValueError: no good")
    assert (task.started_at, task.worker, task.lease_expires_at) == (None, None, None)
    assert 58 < (task.run_after - clock.now()).total_seconds() <= 60
    assert session.lease() == []
    clock.advance(seconds=61)
    session.promote()
    assert session.lease_one().attempt == 2


def test_a_retry_without_delay_is_ready_at_once(session: Session) -> None:
    [lease] = leased(session)

    session.fail(lease, after=0)

    assert session.lease_one().attempt == 2


def test_fails_twice_then_succeeds(session: Session) -> None:
    id_ = session.enqueue(max_attempts=3)
    for _ in range(2):
        session.fail(session.lease_one())

    session.complete(session.lease_one())

    task = session.task(id_)
    assert (task.state, task.attempts) == (State.SUCCEEDED, 3)
    assert [(a.attempt, a.outcome) for a in task.history] == [(1, "failed"), (2, "failed")]


def test_always_fails_ends_dead_with_its_error_after_exactly_its_attempts(
    session: Session,
) -> None:
    id_ = session.enqueue(max_attempts=3)

    answers = [session.fail(session.lease_one())[0] for _ in range(3)]

    assert answers == [REQUEUED, REQUEUED, DEAD]
    task = session.task(id_)
    assert (task.state, task.attempts, task.error) == (State.DEAD, 3, "ValueError: no good")
    assert len(task.history) == 3
    assert session.lease() == []


def test_one_attempt_means_one(session: Session) -> None:
    [lease] = leased(session, max_attempts=1)

    assert session.fail(lease) == [DEAD]


def test_failed_for_good_is_final_with_its_reason(session: Session) -> None:
    [lease] = leased(session)

    assert session.fail(lease, verdict="fail", reason="no such user") == [Reported.FAILED]

    task = session.task(lease.id)
    assert (task.state, task.reason, task.attempts) == (State.FAILED, "no such user", 1)


def test_canceled_by_its_handler_is_final_with_its_reason(session: Session) -> None:
    [lease] = leased(session)

    assert session.fail(lease, verdict="cancel", reason="not needed") == [Reported.CANCELED]

    task = session.task(lease.id)
    assert (task.state, task.reason) == (State.CANCELED, "not needed")
    assert [a.outcome for a in task.history] == ["canceled"]


@pytest.mark.parametrize("verdict", ["retry", "fail", "cancel"])
def test_any_failure_ends_a_task_canceled_whose_cancel_was_asked_for(
    session: Session, verdict: str
) -> None:
    [lease] = leased(session)
    session.cancel(lease.id)

    assert session.fail(lease, verdict=verdict) == [Reported.CANCELED]  # type: ignore[arg-type]

    task = session.task(lease.id)
    assert (task.state, task.reason) == (State.CANCELED, "canceled while it ran")


def test_the_history_tells_who_when_and_why(session: Session) -> None:
    session.enqueue()
    lease = session.lease_one(worker="w7")

    session.fail(lease, after=60, failure=Failure("shop.Oops", "no good", "the traceback"))

    [attempt] = session.task(lease.id).history
    assert (attempt.token, attempt.attempt, attempt.outcome, attempt.worker) == (
        1,
        1,
        "failed",
        "w7",
    )
    assert (attempt.error_type, attempt.message) == ("shop.Oops", "no good")
    assert attempt.traceback == "the traceback"
    assert attempt.started_at == lease.leased_at
    assert attempt.ended_at >= lease.leased_at
    assert attempt.retry_at is not None
    assert 59 < (attempt.retry_at - attempt.ended_at).total_seconds() < 61


def test_a_last_attempt_has_no_retry_in_its_history(session: Session) -> None:
    [lease] = leased(session, max_attempts=1)

    session.fail(lease, after=60)

    [attempt] = session.task(lease.id).history
    assert attempt.retry_at is None


@pytest.mark.parametrize("wrong", ["token", "lease_id", "id", "queue"])
def test_a_failure_with_a_wrong_fence_changes_nothing(session: Session, wrong: str) -> None:
    [lease] = leased(session)
    value = {"lease_id": LEASE_ID, "queue": "other"}.get(wrong)
    setattr(lease, wrong, value or getattr(lease, wrong) + 1)
    before = session.dump()

    assert session.fail(lease) == [LOST]

    assert session.dump() == before


def test_a_failure_after_the_lease_ran_out_is_refused_before_any_reaper_pass(
    session: Session, clock: Clock
) -> None:
    [lease] = leased(session)
    clock.advance(seconds=31)
    before = session.dump()

    assert session.fail(lease) == [LOST]

    assert session.dump() == before


def test_a_zombies_failure_does_not_revive_a_dead_task(session: Session, clock: Clock) -> None:
    """DBL-06: A write with an old lease has no effect, whatever it reports."""
    [stale] = leased(session, max_attempts=2)
    clock.advance(seconds=31)
    session.reap()
    clock.advance(seconds=10)
    session.promote()
    session.fail(session.lease_one())
    before = session.dump()
    assert session.task(stale.id).state is State.DEAD

    answers = [*session.fail(stale), *session.complete(stale), *session.heartbeat(stale)]
    answers += [*session.release(stale), *session.snooze(stale)]

    assert answers == [LOST] * 5
    assert session.dump() == before


@pytest.mark.parametrize("verdict", ["retry", "fail", "cancel"])
def test_a_failure_sent_again_is_answered_already_done(session: Session, verdict: str) -> None:
    [lease] = leased(session)
    session.fail(lease, verdict=verdict)  # type: ignore[arg-type]
    before = session.dump()

    assert session.fail(lease, verdict=verdict) == [ALREADY_DONE]  # type: ignore[arg-type]

    assert session.dump() == before


def test_a_failure_sent_again_after_the_retry_began_is_answered_already_done(
    session: Session,
) -> None:
    [lease] = leased(session)
    session.fail(lease)
    session.lease_one()
    before = session.dump()

    assert session.fail(lease) == [ALREADY_DONE]

    assert session.dump() == before


def test_a_failure_of_a_task_that_was_reaped_is_lost_not_already_done(
    session: Session, clock: Clock
) -> None:
    [lease] = leased(session)
    clock.advance(seconds=31)
    session.reap()

    assert session.fail(lease) == [LOST]


def test_a_lease_reported_twice_in_one_call_is_settled_once_and_spoils_no_other(
    session: Session,
) -> None:
    one, two = leased(session, 2)

    assert session.fail(one, two, one) == [REQUEUED, REQUEUED, ALREADY_DONE]

    assert session.task(one.id).attempts == 1
    assert len(session.task(one.id).history) == 1


def test_the_first_of_two_outcomes_of_one_lease_in_a_call_counts(session: Session) -> None:
    [lease] = leased(session)
    first = Failed(lease, "fail", Failure("First", "", ""))
    second = Failed(lease, "retry", Failure("Second", "", ""))

    assert session.call(FailTasks((first, second))) == [Reported.FAILED, ALREADY_DONE]

    assert session.task(lease.id).state is State.FAILED


def test_one_bad_lease_does_not_spoil_its_neighbours(session: Session) -> None:
    leases = leased(session, 4)
    session.fail(leases[1])
    leases[2].token += 1

    assert session.fail(*leases) == [REQUEUED, ALREADY_DONE, LOST, REQUEUED]


def test_a_mixed_batch_is_answered_in_order(session: Session) -> None:
    retry, last, bad, asked = (
        leased(session)[0],
        leased(session, max_attempts=1)[0],
        leased(session)[0],
        leased(session)[0],
    )
    session.cancel(asked.id)
    failure = Failure("E", "m", "")
    outcomes = (
        Failed(asked, "retry", failure),
        Failed(bad, "fail", failure),
        Failed(last, "retry", failure),
        Failed(retry, "retry", failure),
    )

    answers = session.call(FailTasks(outcomes))

    assert answers == [Reported.CANCELED, Reported.FAILED, DEAD, REQUEUED]


def test_a_task_that_an_open_transaction_settles_is_busy(session: Session, other: Session) -> None:
    one, two = leased(session, 2)
    other.begin()
    other.complete(one)

    assert session.fail(one, two) == [BUSY, REQUEUED]

    other.rollback()
    assert session.fail(one) == [REQUEUED]


def test_the_lease_row_goes_with_the_last_task_of_its_batch(session: Session) -> None:
    one, two = leased(session, 2)
    session.fail(one)

    session.fail(two, closed=[two.lease_id])

    assert session.dump("lease") == {"lease": []}


def test_a_failure_without_words_keeps_the_task_readable(session: Session) -> None:
    [lease] = leased(session)

    session.fail(lease, failure=Failure("E", "", ""))

    assert session.task(lease.id).error == "E: "


def test_the_dead_and_the_failed_are_kept_longer(session: Session) -> None:
    dead, failed, canceled = (leased(session, max_attempts=1)[0] for _ in range(3))

    session.fail(dead)
    session.fail(failed, verdict="fail")
    session.fail(canceled, verdict="cancel")

    days = session.rows(
        "select state, extract(epoch from keep_until - finished_at)::int / 86400"
        "  from wherry.finished order by state"
    )
    assert days == [("canceled", 7), ("dead", 30), ("failed", 30)]
