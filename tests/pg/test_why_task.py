"""Why a task is where it is: each reason, as PostgreSQL has the facts."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.pg.support import Session, spec
from wherry.commands.looking import WhyTask
from wherry.commands.queues import PauseQueue
from wherry.commands.workers import BeatWorker, DirectWorkers
from wherry.domain.failure import Failure
from wherry.domain.state import State
from wherry.domain.why import MOST_AHEAD, Reason, Why
from wherry.domain.worker import Directive
from wherry.testing import Clock


def why(session: Session, id: int) -> Why:
    return session.call(WhyTask(id))


def codes(session: Session, id: int) -> list[str]:
    return [reason.code for reason in why(session, id).reasons]


def first(session: Session, id: int) -> Reason:
    return why(session, id).reasons[0]


def worker(
    session: Session,
    n: int = 1,
    *,
    queues: tuple[str, ...] | None = None,
    types: tuple[str, ...] | None = None,
) -> str:
    """Let a worker be alive; it serves and knows everything unless said otherwise."""
    name = f"w{n}"
    beat = BeatWorker(
        instance=str(UUID(int=n)), name=name, host="h", pid=n, queues=queues, types=types
    )
    session.call(beat)
    return name


def test_a_task_that_is_not_there_is_told_so(session: Session) -> None:
    told = why(session, 10**9)

    assert (told.state, [reason.code for reason in told.reasons]) == (None, ["not_found"])
    assert "retention" in told.reasons[0].advice


@pytest.mark.parametrize(
    ("verdict", "state", "says"),
    [("fail", State.FAILED, "ValueError: no good"), ("cancel", State.CANCELED, "canceled")],
)
def test_an_ended_task_tells_how_by_whom_and_when(
    session: Session, clock: Clock, verdict: str, state: State, says: str
) -> None:
    id_ = session.enqueue()
    session.fail(session.lease_one(worker="box"), verdict=verdict)  # type: ignore[arg-type]
    clock.advance(minutes=6)

    told = why(session, id_)

    [reason] = told.reasons
    assert (told.state, reason.code) == (state, str(state))
    assert says in reason.text
    assert "on box" in reason.text
    assert "6 min ago" in reason.text
    assert f"requeue {id_}" in reason.advice
    assert reason.at == session.task(id_).finished_at


def test_a_dead_task_tells_its_attempts_and_a_done_one_that_it_is_done(session: Session) -> None:
    dead = session.enqueue(max_attempts=1)
    session.fail(session.lease_one())
    done = session.enqueue()
    session.complete(session.lease_one())

    assert "after 1 of 1 attempts" in first(session, dead).text
    assert (first(session, dead).code, first(session, done).code) == ("dead", "succeeded")


def test_a_leased_task_tells_its_holder_and_its_end(session: Session, clock: Clock) -> None:
    id_ = session.enqueue()
    session.lease_one(worker="box", seconds=30)
    clock.advance(seconds=10)

    [reason] = why(session, id_).reasons

    assert reason.code == "running"
    assert reason.text.startswith(
        "box has it for 10 s, attempt 1 of 20; its lease runs out in 20 s"
    )


def test_a_requested_cancel_stands_beside_the_holder(session: Session) -> None:
    id_ = session.enqueue()
    session.lease_one()
    session.cancel(id_, reason="wrong address")

    assert codes(session, id_) == ["running", "cancel_requested"]
    assert "wrong address" in why(session, id_).reasons[1].text


def test_a_lease_that_ran_out_is_named_until_it_is_reaped(session: Session, clock: Clock) -> None:
    id_ = session.enqueue()
    session.lease_one(worker="box", seconds=30)
    clock.advance(minutes=6)

    reason = first(session, id_)

    assert reason.code == "lease_expired"
    assert "box ran out" in reason.text
    session.reap()
    assert "lease_expired" not in codes(session, id_)


def test_a_leased_task_without_a_lease_is_told_to_be_taken_back(session: Session) -> None:
    id_ = session.enqueue()
    session.lease_one()
    session.rows("delete from wherry.lease")

    assert codes(session, id_) == ["lease_expired"]


def test_a_paused_queue_comes_before_its_workers(session: Session) -> None:
    id_ = session.enqueue(queue="mail")
    session.call(PauseQueue("mail", "eve", "a flood"))

    told = why(session, id_)

    assert [reason.code for reason in told.reasons] == ["queue_paused", "no_worker"]
    assert "by eve" in told.reasons[0].text
    assert "a flood" in told.reasons[0].text
    assert "wherry queues resume mail" in told.reasons[0].advice
    assert (told.state, told.queue) == (State.QUEUED, "mail")


def test_a_delayed_task_tells_when_it_may_run(session: Session) -> None:
    worker(session)
    id_ = session.enqueue(delay=600)

    [reason] = why(session, id_).reasons

    assert reason.code == "delayed"
    assert "10 min" in reason.text
    assert reason.at == session.task(id_).run_after


def test_a_retry_tells_which_attempt_failed_and_how(session: Session) -> None:
    worker(session)
    id_ = session.enqueue(max_attempts=3)
    session.fail(session.lease_one(), after=600, failure=Failure("KeyError", "'to'", ""))

    [reason] = why(session, id_).reasons

    assert reason.code == "waits_for_retry"
    assert "attempt 1 of 3 failed" in reason.text
    assert "KeyError: 'to'" in reason.text


def test_a_snoozed_task_tells_that_its_handler_put_it_off(session: Session) -> None:
    worker(session)
    id_ = session.enqueue()
    session.snooze(session.lease_one(), delay=600)

    assert codes(session, id_) == ["snoozed"]


def test_a_promotion_that_is_late_is_told_and_what_to_do(session: Session, clock: Clock) -> None:
    worker(session)
    id_ = session.enqueue(delay=10)
    clock.advance(seconds=11)
    worker(session)

    soon = first(session, id_)
    clock.advance(minutes=6)
    late = first(session, id_)

    assert (soon.code, late.code) == ("promotion_late", "promotion_late")
    assert "within seconds" in soon.advice
    assert "wherry doctor" in late.advice
    worker(session)
    session.promote()
    assert codes(session, id_) == ["next"]


def test_nobody_alive_and_nobody_who_serves_and_nobody_who_knows(session: Session) -> None:
    id_ = session.enqueue("shop.send", queue="mail")

    assert first(session, id_).code == "no_worker"
    worker(session, 1, queues=("other",))
    assert first(session, id_).code == "queue_not_served"
    worker(session, 2, queues=("mail",), types=("shop.pack",))
    assert first(session, id_).code == "type_not_known"
    worker(session, 3, queues=("mail", "other"), types=("shop.send",))
    assert codes(session, id_) == ["next"]


def test_workers_that_all_drain_are_told_so(session: Session) -> None:
    id_ = session.enqueue()
    names = worker(session, 1), worker(session, 2)

    session.call(DirectWorkers(names[:1], Directive.DRAIN))
    assert codes(session, id_) == ["next"]
    session.call(DirectWorkers(names[1:], Directive.STOP))

    assert codes(session, id_) == ["workers_drain"]


def test_a_worker_that_fell_silent_is_nobody(session: Session, clock: Clock) -> None:
    id_ = session.enqueue()
    worker(session)
    clock.advance(minutes=6)

    assert first(session, id_).code == "no_worker"


def test_a_parked_task_tells_that_its_type_is_known_by_now(session: Session) -> None:
    worker(session, types=("other",))
    id_ = session.enqueue()
    session.rows("update wherry.live set state = 'parked'")

    assert codes(session, id_) == ["type_not_known"]
    worker(session, 2)
    assert codes(session, id_) == ["parked"]


def test_tasks_ahead_are_counted_by_priority_and_then_by_order(session: Session) -> None:
    worker(session)
    for _ in range(2):
        session.enqueue()
    id_ = session.enqueue()
    session.enqueue(priority=7)
    session.enqueue(priority=-7)
    session.enqueue()
    session.enqueue(queue="other", priority=50)

    [reason] = why(session, id_).reasons

    assert reason.code == "tasks_ahead"
    assert reason.text.startswith("3 tasks stand ahead")


def test_no_more_tasks_ahead_are_counted_than_so_many(session: Session) -> None:
    worker(session)
    session.enqueue_many(*[spec()] * 1200)
    id_ = session.enqueue(priority=-1)

    assert f"{MOST_AHEAD:,} or more tasks" in first(session, id_).text


def test_a_last_attempt_waits_for_a_free_slot(session: Session) -> None:
    worker(session)
    id_ = session.enqueue(max_attempts=2)
    session.fail(session.lease_one())

    assert codes(session, id_) == ["next", "last_attempt"]


def test_a_ttl_is_told_and_once_it_is_over_nothing_else(session: Session, clock: Clock) -> None:
    worker(session)
    id_ = session.enqueue(ttl=600)

    assert codes(session, id_) == ["next", "will_expire"]
    clock.advance(minutes=11)
    assert codes(session, id_) == ["expired"]


def test_asking_changes_nothing(session: Session) -> None:
    id_ = session.enqueue()
    before = session.dump()

    why(session, id_)

    assert session.dump() == before
