"""Who is alive, and what is parked while nobody alive knows its type."""

from __future__ import annotations

import pytest

from tests.pg.support import Session, spec
from wherry.commands.maintenance import ParkTasks, Unparked, UnparkTasks
from wherry.commands.workers import (
    BeatWorker,
    ForgetWorkers,
    LeaveWorker,
    StopWaiting,
    WaitForTasks,
)
from wherry.domain.state import State
from wherry.domain.task import Canceled
from wherry.domain.worker import Directive
from wherry.testing import Clock

ONE = "00000000-0000-4000-8000-000000000001"
TWO = "00000000-0000-4000-8000-000000000002"


def beat(
    session: Session, *types: str, instance: str = ONE, alive: float = 60.0, any_type: bool = False
) -> Directive:
    return session.call(
        BeatWorker(
            instance=instance, name="w", host="h", pid=7, queues=("a", "b"),
            types=None if any_type else types,
            alive_seconds=alive,
        )
    )  # fmt: skip


def test_a_worker_is_known_from_its_first_beat_and_updated_by_the_next(
    session: Session, clock: Clock
) -> None:
    beat(session, "t")
    clock.advance(seconds=30)

    beat(session, "t", "u")

    [row] = session.dump("worker")["worker"]
    assert (row["name"], row["host"], row["pid"]) == ("w", "h", 7)
    assert (row["queues"], row["types"]) == (["a", "b"], ["t", "u"])
    assert row["beat_at"] > row["started_at"]
    assert session.value("select expires_at - beat_at = interval '60 s' from wherry.worker")


def test_a_worker_says_goodbye_with_its_waits(session: Session) -> None:
    beat(session, "t")
    beat(session, "t", instance=TWO)
    session.call(WaitForTasks(ONE, ("a", "b"), 30))

    session.call(LeaveWorker(ONE))

    assert session.rows("select instance::text from wherry.worker") == [(TWO,)]
    assert session.dump("waiting") == {"waiting": []}
    session.call(LeaveWorker(ONE))


def test_silent_workers_and_waits_are_forgotten_after_a_day(session: Session, clock: Clock) -> None:
    beat(session, "t")
    session.call(WaitForTasks(ONE, ("a",), 30))
    clock.advance(hours=25)
    beat(session, "t", instance=TWO)
    session.call(WaitForTasks(TWO, ("a",), 30))

    assert session.call(ForgetWorkers()) == 1

    assert session.rows("select instance::text from wherry.worker") == [(TWO,)]
    assert session.rows("select instance::text from wherry.waiting") == [(TWO,)]
    assert session.call(ForgetWorkers()) == 0


def test_a_wait_can_be_ended_for_some_queues(session: Session) -> None:
    session.call(WaitForTasks(ONE, ("a", "b"), 30))

    session.call(StopWaiting(ONE, ("a",)))

    assert session.rows("select queue from wherry.waiting") == [("b",)]


def test_tasks_that_no_live_worker_knows_are_set_aside(session: Session) -> None:
    strange = [session.enqueue("strange") for _ in range(3)]
    known = session.enqueue("known")
    beat(session, "known")

    assert session.call(ParkTasks("default")) == 3

    assert [lease.id for lease in session.lease(9)] == [known]
    assert {session.task(id_).state for id_ in strange} == {State.QUEUED}
    assert session.call(ParkTasks("default")) == 0


def test_without_any_live_worker_nothing_is_parked(session: Session, clock: Clock) -> None:
    session.enqueue("strange")
    assert session.call(ParkTasks("default")) == 0
    beat(session, "known")
    clock.advance(seconds=61)

    assert session.call(ParkTasks("default")) == 0


def test_they_come_back_behind_what_is_ready_when_somebody_knows_them(session: Session) -> None:
    first, high = session.enqueue("strange"), session.enqueue("strange", priority=9)
    beat(session, "known")
    session.call(ParkTasks("default"))
    last = session.enqueue("known")
    assert session.call(UnparkTasks()) == Unparked(0)
    beat(session, "strange", instance=TWO)

    assert session.call(UnparkTasks()) == Unparked(2)

    assert [lease.id for lease in session.lease(9)] == [high, last, first]


def test_parking_is_bounded_and_looks_at_the_front_first(session: Session) -> None:
    session.enqueue_many(*(spec("strange") for _ in range(10)))
    beat(session, "known")

    assert session.call(ParkTasks("default", 4)) == 4
    assert session.call(ParkTasks("default", 4)) == 4
    assert session.call(ParkTasks("default", 4)) == 2
    assert session.call(ParkTasks("other", 4)) == 0


def test_unparking_is_bounded_and_the_rest_follows(session: Session) -> None:
    session.enqueue_many(*(spec("strange") for _ in range(5)))
    beat(session, "known")
    session.call(ParkTasks("default"))
    beat(session, "strange", instance=TWO)

    answers = [session.call(UnparkTasks(2)).unparked for _ in range(4)]

    assert answers == [2, 2, 1, 0]


def test_a_pass_of_parking_hides_no_task_of_a_known_type_meanwhile(
    session: Session, other: Session
) -> None:
    session.enqueue("strange")
    known = session.enqueue("known")
    beat(session, "known")
    other.begin()
    other.call(ParkTasks("default"))

    assert [lease.id for lease in session.lease(9, types=("known",))] == [known]

    other.commit()


def test_a_task_that_is_leased_meanwhile_is_not_parked(session: Session, other: Session) -> None:
    session.enqueue("strange")
    beat(session, "known")
    other.begin()
    [lease] = other.lease()

    assert session.call(ParkTasks("default")) == 0

    other.commit()
    assert session.task(lease.id).state is State.LEASED


@pytest.mark.parametrize("commits", [True, False])
def test_a_parked_task_that_is_canceled_meanwhile_is_not_brought_back(
    session: Session, other: Session, commits: bool
) -> None:
    id_ = session.enqueue("strange")
    beat(session, "known")
    session.call(ParkTasks("default"))
    beat(session, "strange", instance=TWO)
    other.begin()
    assert other.cancel(id_) == [Canceled.CANCELED]

    assert session.call(UnparkTasks()) == Unparked(0)

    other.rows("commit" if commits else "rollback")
    assert session.call(UnparkTasks()) == Unparked(0 if commits else 1)


def test_nothing_is_parked_while_somebody_knows_any_type(session: Session, clock: Clock) -> None:
    session.enqueue("strange")
    beat(session, "known")
    beat(session, instance=TWO, any_type=True)

    assert session.call(ParkTasks("default")) == 0

    clock.advance(seconds=61)
    beat(session, "known")
    assert session.call(ParkTasks("default")) == 1


def test_all_parked_tasks_come_back_for_one_who_knows_any_type(session: Session) -> None:
    session.enqueue_many(*(spec(type) for type in "abcab"))
    beat(session, "known")
    session.call(ParkTasks("default"))
    beat(session, instance=TWO, any_type=True)

    answers = [session.call(UnparkTasks(3)).unparked for _ in range(3)]

    assert answers == [3, 2, 0]
    assert len(session.lease(9)) == 5
