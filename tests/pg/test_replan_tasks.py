"""Queued tasks get another priority or another time; what workers have is left alone."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from tests.pg.support import Session
from wherry.commands.audit import Actor, ListAudit, audited
from wherry.commands.leases import LeaseTasks
from wherry.commands.maintenance import ParkTasks
from wherry.commands.replanning import ReprioritizeTasks, RescheduleTasks
from wherry.commands.workers import BeatWorker, WaitForTasks
from wherry.domain.front import Front
from wherry.domain.state import State
from wherry.domain.task import Replanned
from wherry.testing import Clock

NOBODY = 10**9
UUID_1 = str(UUID(int=1))


def reprioritized(session: Session, *ids: int, to: int) -> list[Replanned]:
    return session.call(ReprioritizeTasks(ids, to))


def rescheduled(session: Session, *ids: int, delay: float = 0.0) -> list[Replanned]:
    return session.call(RescheduleTasks(ids, delay_seconds=delay))


def one_of_each(session: Session) -> dict[str, int]:
    ended = session.enqueue()
    session.complete(session.lease_one())
    leased = session.enqueue()
    session.lease_one()
    delayed = session.enqueue(delay=3600)
    return {"ended": ended, "leased": leased, "delayed": delayed, "ready": session.enqueue()}


@pytest.mark.parametrize("verb", ["reprioritize", "reschedule"])
def test_each_task_has_its_answer_and_only_queued_ones_change(session: Session, verb: str) -> None:
    found = one_of_each(session)
    before = {name: session.task(found[name]) for name in ("ended", "leased")}
    ids = (found["ready"], NOBODY, found["ended"], found["delayed"], found["leased"])

    if verb == "reprioritize":
        answers = reprioritized(session, *ids, to=7)
    else:
        answers = rescheduled(session, *ids, delay=60)

    assert [str(answer) for answer in answers] == [
        *("changed", "unknown", "final", "changed", "leased"),
    ]
    assert {name: session.task(found[name]) for name in before} == before
    assert {session.task(found[n]).state for n in ("ready", "delayed")} == {State.QUEUED}


def test_a_higher_priority_goes_first_and_behind_those_that_have_it(session: Session) -> None:
    low, lower, high = session.enqueue(), session.enqueue(priority=-1), session.enqueue(priority=7)

    assert reprioritized(session, lower, low, to=7) == [Replanned.CHANGED] * 2

    # Those that move keep the order in which they would have been leased.
    leases = sorted(session.lease(3), key=lambda lease: (-lease.priority, lease.position))
    assert [lease.id for lease in leases] == [high, low, lower]


def test_the_same_priority_once_more_changes_nothing(session: Session) -> None:
    first, second = session.enqueue(priority=7), session.enqueue(priority=7)
    before = session.dump("live")

    assert reprioritized(session, first, second, to=7) == [Replanned.CHANGED] * 2

    assert session.dump("live") == before


def test_no_front_stands_before_a_task_that_moved(session: Session) -> None:
    id_ = session.enqueue(priority=-5)
    session.enqueue(priority=5)
    session.lease_one()
    newest = session.value("select last_value from wherry.position")
    front = Front().past({5: newest})

    reprioritized(session, id_, to=5)

    leases = session.call(LeaseTasks(queue="default", worker="w", limit=9, front=front))
    assert [lease.id for lease in leases] == [id_]


def test_a_delayed_task_runs_now_and_a_ready_one_later(session: Session) -> None:
    delayed, ready = session.enqueue(delay=3600), session.enqueue()

    assert rescheduled(session, delayed) == [Replanned.CHANGED]
    assert rescheduled(session, ready, delay=600) == [Replanned.CHANGED]

    assert [lease.id for lease in session.lease(9)] == [delayed]
    assert session.rows("select state from wherry.live where id = %s", ready) == [("delayed",)]


def test_a_moment_is_kept_as_it_was_said(session: Session, clock: Clock) -> None:
    id_ = session.enqueue()
    at = session.task(id_).created_at + timedelta(hours=1)

    session.call(RescheduleTasks((id_,), at))

    assert session.task(id_).run_after == at
    assert session.lease() == []
    clock.advance(hours=1)
    session.promote()
    assert [lease.id for lease in session.lease()] == [id_]


def test_attempts_error_and_ttl_stay(session: Session) -> None:
    id_ = session.enqueue(ttl=36_000, max_attempts=3)
    session.fail(session.lease_one(), after=3600)
    before = session.rows("select discard_at, attempts, token from wherry.live where id = %s", id_)

    rescheduled(session, id_)

    assert before == session.rows(
        "select discard_at, attempts, token from wherry.live where id = %s", id_
    )
    assert session.lease_one().attempt == 2


def test_a_time_that_has_come_is_now(session: Session) -> None:
    id_ = session.enqueue(delay=3600)
    before = session.value("select wherry.now()")

    session.call(RescheduleTasks((id_,), run_after=before - timedelta(days=400)))

    assert session.task(id_).run_after >= before
    assert session.value("select state from wherry.live") == "ready"


def test_a_parked_task_stays_parked_unless_it_is_put_off(session: Session) -> None:
    beat = BeatWorker(instance=UUID_1, name="w", host="h", pid=1, queues=None, types=("other",))
    session.call(beat)
    first, second = session.enqueue(), session.enqueue()
    session.call(ParkTasks("default"))

    rescheduled(session, first)
    rescheduled(session, second, delay=60)

    states = dict(session.rows("select id, state from wherry.live"))
    assert states == {first: "parked", second: "delayed"}


def test_who_waits_is_woken_by_what_becomes_ready(session: Session, other: Session) -> None:
    id_ = session.enqueue(delay=3600)
    session.call(WaitForTasks(UUID_1, ("default",), 60))
    channel = other.value("select channel from wherry.settings")
    other.connection.execute(f"listen {channel}".encode())

    rescheduled(session, id_)

    [notification] = other.connection.notifies(timeout=10, stop_after=1)
    assert notification.payload == "default"


def test_what_somebody_has_in_hand_is_not_waited_for(session: Session, other: Session) -> None:
    id_ = session.enqueue()
    other.begin()
    other.rows("select from wherry.live where id = %s for update", id_)

    assert reprioritized(session, id_, to=3) == [Replanned.LEASED]
    assert rescheduled(session, id_) == [Replanned.LEASED]

    other.rollback()
    assert session.task(id_).priority == 0


@pytest.mark.parametrize(
    ("command", "action", "said"),
    [
        (ReprioritizeTasks((1,), 7), "reprioritize_tasks", {"ids": [1], "priority": 7}),
        (RescheduleTasks((1,)), "reschedule_tasks", {"ids": [1], "delay_seconds": 0.0}),
    ],
)
def test_the_audit_tells_who_and_how(
    session: Session,
    command: ReprioritizeTasks | RescheduleTasks,
    action: str,
    said: dict[str, object],
) -> None:
    session.enqueue()

    session.call(audited(command, Actor("eve", reason="why not")))

    [entry] = session.call(ListAudit())
    assert (entry.actor, entry.action, entry.target) == ("eve", action, said)
    assert (entry.reason, entry.count) == ("why not", int(bool(session.find(1))))
