"""Requeue puts a finished task back: attempts start again, token, history and key stay its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from tests.pg.large import LARGE
from tests.pg.support import Session, result_of, spec
from wherry.commands.tasks import PurgeTasks, RequeueTasks
from wherry.domain.lease import Reported
from wherry.domain.state import State
from wherry.domain.task import Purged, RequeueAnswer, Requeued
from wherry.testing import Clock


def dead(session: Session, **options: Any) -> int:
    """Return a task that is dead."""
    id_ = session.enqueue(max_attempts=1, **options)
    session.fail(session.lease_one())
    return id_


def finish(session: Session, state: State) -> int:
    session.enqueue(max_attempts=1)
    lease = session.lease_one()
    match state:
        case State.SUCCEEDED:
            session.complete(lease, result="1")
        case State.CANCELED:
            session.fail(lease, verdict="cancel")
        case State.FAILED:
            session.fail(lease, verdict="fail")
        case _:
            session.fail(lease)
    return lease.id


@pytest.mark.parametrize("state", [s for s in State if s.is_final])
def test_a_finished_task_runs_again_from_the_start(session: Session, state: State) -> None:
    id_ = finish(session, state)

    assert session.requeue(id_) == [Requeued(id_, RequeueAnswer.QUEUED)]

    task = session.task(id_)
    assert (task.state, task.attempts, task.token) == (State.QUEUED, 0, 1)
    assert (task.result_text, task.reason, task.finished_at, task.worker) == (None,) * 4
    lease = session.lease_one()
    assert (lease.id, lease.attempt, lease.token) == (id_, 1, 2)
    assert session.complete(lease) == [Reported.DONE]


def test_history_and_all_that_was_asked_for_are_kept(session: Session) -> None:
    id_ = dead(
        session, payload={"n": 1}, priority=3, key="k", tags=["x"], headers={"h": "1"}, timeout=5,
        key_ttl=60,
    )  # fmt: skip
    before = session.task(id_)

    session.requeue(id_)
    session.fail(session.lease_one())

    after = session.task(id_)
    for name in ("payload", "priority", "key", "tags", "headers", "timeout_seconds", "created_at"):
        assert getattr(after, name) == getattr(before, name), name
    assert [(a.token, a.attempt) for a in after.history] == [(1, 1), (2, 1)]


def test_a_requeued_task_stands_behind_those_that_were_ready_before(session: Session) -> None:
    id_ = dead(session)
    waiting = session.enqueue()
    session.requeue(id_)

    assert [lease.id for lease in session.lease(9)] == [waiting, id_]


def test_its_time_to_live_begins_again(session: Session, clock: Clock) -> None:
    id_ = dead(session, ttl=60)
    clock.advance(minutes=5)

    session.requeue(id_)

    assert session.lease_one().id == id_


def test_an_old_cancel_is_forgotten(session: Session) -> None:
    session.enqueue()
    lease = session.lease_one()
    session.cancel(lease.id)
    session.fail(lease)

    session.requeue(lease.id)

    assert session.fail(session.lease_one()) == [Reported.REQUEUED]


def test_live_and_unknown_tasks_are_answered_so_and_left_alone(session: Session) -> None:
    leased, queued = session.enqueue(), session.enqueue()
    session.lease()
    before = session.dump()

    answers = session.requeue(10**12, leased, queued)

    assert [a.answer for a in answers] == ["unknown", "not_final", "not_final"]
    assert session.dump() == before


def test_the_holder_of_an_old_lease_cannot_settle_the_requeued_task(session: Session) -> None:
    session.enqueue()
    old = session.lease_one()
    session.complete(old)
    session.requeue(old.id)
    before = session.dump()

    assert session.complete(old) == [Reported.LOST]
    assert session.fail(old) == [Reported.LOST]
    assert session.heartbeat(old) == [Reported.LOST]

    assert session.dump() == before


def test_a_key_that_names_another_live_task_is_refused_by_that_ones_name(
    session: Session, clock: Clock
) -> None:
    old = dead(session, key="k", key_ttl=60)
    clock.advance(seconds=61)
    new = session.enqueue(key="k")
    before = session.dump()

    assert session.requeue(old) == [Requeued(old, RequeueAnswer.KEY_TAKEN, "k", new)]

    assert session.dump() == before
    assert session.task(old).state is State.DEAD


def test_a_key_that_names_another_finished_task_within_its_time_is_refused(
    session: Session, clock: Clock
) -> None:
    old = dead(session, key="k", key_ttl=60)
    clock.advance(seconds=61)
    new = dead(session, key="k", key_ttl=60)

    assert session.requeue(old)[0].taken_by == new
    clock.advance(seconds=61)
    assert session.requeue(old)[0].answer == "queued"
    assert session.enqueued(key="k").id == old


def test_without_key_it_goes_on_beside_the_task_that_has_it(session: Session, clock: Clock) -> None:
    old = dead(session, key="k", key_ttl=60)
    clock.advance(seconds=61)
    new = session.enqueue(key="k")

    assert session.requeue(old, without_key=True)[0].answer == "queued"

    assert session.task(old).key is None
    assert session.enqueued(key="k").id == new


def test_without_key_a_task_gives_up_the_key_that_was_still_its_own(session: Session) -> None:
    old = dead(session, key="k")

    session.requeue(old, without_key=True)

    assert session.task(old).key is None
    assert session.dump("key") == {"key": []}
    assert session.enqueued(key="k").created


@pytest.mark.parametrize("told", [{"without_key": True}, {"to_queue": "other"}])
def test_without_key_it_is_not_kept_for_the_sake_of_that_key(
    session: Session, told: dict[str, Any]
) -> None:
    id_ = dead(session, key="k", key_ttl=timedelta(days=365))

    session.call(RequeueTasks((id_,), **told))
    session.complete(session.lease_one(queue=session.task(id_).queue))

    kept = session.value("select keep_until - finished_at from wherry.finished")
    assert kept == timedelta(days=7)
    assert session.value("select key_until from wherry.finished") is None


def test_a_requeued_task_holds_its_key_again(session: Session, clock: Clock) -> None:
    id_ = dead(session, key="k", key_ttl=60)
    clock.advance(seconds=61)
    session.requeue(id_)

    again = session.enqueued(key="k")

    assert (again.id, again.created) == (id_, False)


def test_of_two_tasks_with_one_key_in_one_call_the_newest_gets_it(
    session: Session, clock: Clock
) -> None:
    old = dead(session, key="k", key_ttl=60)
    clock.advance(seconds=61)
    new = dead(session, key="k", key_ttl=60)
    clock.advance(seconds=61)

    answers = session.requeue(old, new)

    assert answers == [
        Requeued(old, RequeueAnswer.KEY_TAKEN, "k", new),
        Requeued(new, RequeueAnswer.QUEUED, "k"),
    ]
    assert session.value("select count(*) from wherry.live") == 1


def test_one_refused_task_does_not_spoil_the_others(session: Session, clock: Clock) -> None:
    old = dead(session, key="k", key_ttl=60)
    clock.advance(seconds=61)
    session.enqueue(key="k", priority=-1)
    plain, keyed = dead(session), dead(session, key="l")

    answers = session.requeue(old, plain, keyed)

    assert [a.answer for a in answers] == ["key_taken", "queued", "queued"]


def test_an_id_named_twice_is_requeued_once(session: Session) -> None:
    id_ = dead(session)

    assert [a.answer for a in session.requeue(id_, id_)] == ["queued", "queued"]

    assert session.value("select count(*) from wherry.live") == 1


def test_two_requeues_of_one_task_put_it_back_once(session: Session, other: Session) -> None:
    id_ = dead(session, key="k")
    session.begin()
    session.requeue(id_)

    assert [a.answer for a in other.requeue(id_)] == ["not_final"]

    session.commit()
    assert session.value("select count(*) from wherry.live") == 1
    assert session.value("select count(*) from wherry.finished") == 0


def requeue(session: Session, id_: int) -> Any:
    return session.requeue(id_)[0].answer


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
    call = start(requeue, session, old)
    until_blocked(session, other)

    other.rows("commit" if commits else "rollback")

    assert result_of(call) == ("key_taken" if commits else "queued")
    assert session.enqueued(key="k").id == (new if commits else old)


@pytest.mark.parametrize("commits", [True, False])
def test_a_takeover_waits_for_a_requeue_under_way(
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
    other.requeue(old)
    call = start(lambda: session.enqueued(key="k"))
    until_blocked(session, other)

    other.rows("commit" if commits else "rollback")

    answer = result_of(call)
    assert (answer.id == old, answer.created) == ((True, False) if commits else (False, True))


def test_a_bulk_requeue_keeps_count(session: Session) -> None:
    session.enqueue_many(*(spec(max_attempts=1) for _ in range(200)))
    leases = session.lease(200)
    session.fail(*leases)

    answers = session.requeue(*(lease.id for lease in leases))

    assert {a.answer for a in answers} == {"queued"}
    assert session.value("select count(*) from wherry.live where attempts = 0") == 200


def test_no_payload_is_read_to_requeue_what_has_no_key_or_has_it_still(session: Session) -> None:
    ids = [
        session.enqueue(payload=LARGE),
        session.enqueue(payload=LARGE, key="k"),
    ]
    session.complete(*session.lease(2))
    stamps = session.rows("select payload_hash from wherry.key")
    # Whoever reads it fails.
    kept = session.rows("select task_id, nth, piece from wherry.payload")
    session.rows("update wherry.payload set piece = '\\xff'")

    answers = [each.answer for each in session.requeue(*ids)]

    assert answers == ["queued", "queued"]
    assert session.rows("select payload_hash from wherry.key") == stamps
    for task_id, nth, piece in kept:
        session.rows(
            "update wherry.payload set piece = %s where task_id = %s and nth = %s",
            piece, task_id, nth,
        )  # fmt: skip
    assert [lease.payload for lease in session.lease(2)] == [LARGE, LARGE]
    assert session.enqueued(payload=LARGE, key="k").payload_matches is True


def test_tasks_go_to_another_queue_with_all_that_is_theirs_but_their_keys(
    session: Session,
) -> None:
    large = {"text": "x" * 9000}
    id_ = dead(session, payload=large, key="k", tags=["a"])
    small = dead(session, payload={"n": 1})
    kept = dead(session, key="other")
    assert session.value("select count(*) from wherry.payload where task_id = %s", id_) > 0

    answers = session.call(RequeueTasks((id_, small), to_queue="aside"))

    assert [each.answer for each in answers] == [RequeueAnswer.QUEUED] * 2
    task = session.task(id_)
    assert (task.queue, task.key, task.payload, task.tags) == ("aside", None, large, ("a",))
    assert [attempt.outcome for attempt in task.history] == ["failed"]
    assert session.rows("select distinct queue from wherry.payload") == [("aside",)]
    assert session.rows(
        "select distinct queue from wherry.attempt where task_id in (%s, %s)", id_, small
    ) == [("aside",)]
    # Its key is free in its old queue; that of another task is not touched.
    assert session.rows("select key from wherry.key") == [("other",)]
    assert session.task(kept).queue == "default"
    lease = session.lease_one(queue="aside")
    assert lease.id == id_
    assert session.complete(lease) == [Reported.DONE]
    [gone] = session.call(PurgeTasks((id_,)))
    assert gone is Purged.PURGED
    assert session.value("select count(*) from wherry.payload") == 0
    assert session.value("select count(*) from wherry.attempt where task_id = %s", id_) == 0


def test_what_goes_to_another_queue_is_counted_there(session: Session) -> None:
    id_ = dead(session)
    session.rows("delete from wherry.flow returning 1")

    session.call(RequeueTasks((id_,), delay_seconds=60, to_queue="aside"))

    assert session.rows("select queue, kind, n from wherry.flow order by kind") == [
        ("aside", "delayed", 1),
        ("default", "left_dead", 1),
        ("aside", "requeued", 1),
    ]
    assert session.rows("select queue, state from wherry.live") == [("aside", "delayed")]
