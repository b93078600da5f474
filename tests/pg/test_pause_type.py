"""Nothing of a paused type is leased, in one queue or in all; whatever else there is goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.pg.support import Session, spec
from wherry.commands.leases import LeaseForPollers
from wherry.commands.looking import WhyTask
from wherry.commands.maintenance import ParkTasks, UnparkTasks
from wherry.commands.queues import ListPausedTypes, PauseType, ResumeType
from wherry.commands.workers import BeatWorker, WaitForTasks
from wherry.domain.front import Front
from wherry.domain.lease import Lease, Poller

WORKER = "00000000-0000-4000-8000-000000000001"


def past_front(session: Session, n: int) -> list[Lease]:
    return session.lease(n, front=Front().with_lanes((0,)))


def polled(session: Session, n: int) -> list[Lease]:
    dealt = session.call(LeaseForPollers("default", None, (Poller("w", n),)))
    return [lease for leases in dealt for lease in leases]


@pytest.mark.parametrize("lease", [Session.lease, past_front, polled])
def test_nothing_of_a_paused_type_is_leased_and_all_else_is(
    session: Session, lease: Callable[[Session, int], list[Lease]]
) -> None:
    """Also where a backlog of it stands in front."""
    session.enqueue_many(*(spec("batch") for _ in range(300)))
    mail = session.enqueue("mail")

    assert session.call(PauseType("batch", None, "ann", "a flood"))

    assert [each.id for each in lease(session, 9)] == [mail]
    assert session.call(ResumeType("batch"))
    assert len(lease(session, 9)) == 9


def test_a_pause_in_one_queue_is_none_elsewhere(session: Session) -> None:
    for queue in ("default", "other"):
        session.enqueue("batch", queue=queue)

    assert session.call(PauseType("batch", "other"))

    assert len(session.lease(9)) == 1
    assert session.lease(9, queue="other") == []
    assert not session.call(ResumeType("batch"))
    assert session.call(ResumeType("batch", "other"))
    assert len(session.lease(9, queue="other")) == 1


def test_pausing_twice_keeps_the_first_words(session: Session) -> None:
    assert session.call(PauseType("t", "q", "ann", "first"))
    assert not session.call(PauseType("t", "q", "bob", "second"))
    assert session.call(PauseType("t", None, "eve"))

    everywhere, [*_, first] = session.call(ListPausedTypes())[0], ["", "first"]

    assert (everywhere.type, everywhere.queue, everywhere.paused_by) == ("t", None, "eve")
    assert session.call(ListPausedTypes())[1].reason == first


def beat(session: Session, *types: str) -> None:
    session.call(BeatWorker(instance=WORKER, name="w", host="h", pid=1, queues=None, types=types))


def test_without_a_worker_nothing_is_set_aside(session: Session) -> None:
    """Programs that lease by themselves say of no type that they know it."""
    batch = session.enqueue("batch")
    session.call(PauseType("batch"))

    assert session.call(ParkTasks("default")) == 0
    session.call(ResumeType("batch"))
    assert [lease.id for lease in session.lease(9)] == [batch]


@pytest.mark.parametrize("queue", [None, "default"])
def test_what_is_paused_is_set_aside_and_comes_back(session: Session, queue: str | None) -> None:
    beat(session, "batch", "mail")
    session.enqueue_many(*(spec("batch") for _ in range(3)), spec("mail"))
    session.call(PauseType("batch", queue))

    assert session.call(ParkTasks("default")) == 3
    assert session.call(UnparkTasks()).unparked == 0
    assert len(session.lease(9)) == 1

    assert session.call(ResumeType("batch", queue))
    assert len(session.lease(9)) == 3


def test_resuming_wakes_who_waits(session: Session, other: Session) -> None:
    other.rows(f'listen "{session.value("select channel from wherry.settings")}"')
    session.enqueue("batch")
    session.call(PauseType("batch"))
    session.call(WaitForTasks(WORKER, ("default",), 30))

    session.call(ResumeType("batch"))

    other.rows("select 1")
    assert "default" in {each.payload for each in other.connection.notifies(timeout=0)}


@pytest.mark.parametrize("state", ["ready", "parked", "delayed"])
def test_the_reason_is_told(session: Session, state: str) -> None:
    beat(session, "batch")
    id_ = session.enqueue("batch", delay=60 if state == "delayed" else 0)
    session.call(PauseType("batch", None, "ann", "a flood"))
    if state == "parked":
        session.call(ParkTasks("default"))

    reasons = {each.code: each for each in session.call(WhyTask(id_)).reasons}

    assert "by ann" in reasons["type_paused"].text
    assert "a flood" in reasons["type_paused"].text
    assert reasons["type_paused"].advice == "to go on: wherry types resume batch"
    assert not {"parked", "next"} & set(reasons)


def test_both_pauses_of_a_type_are_told(session: Session) -> None:
    """Who lifts the one that is told, and only that, would wait in vain."""
    id_ = session.enqueue("batch")
    session.call(PauseType("batch", "default", "ann", "a flood"))
    session.call(PauseType("batch", None, "bob", "a bug"))
    session.call(PauseType("batch", "other"))

    reasons = {each.code: each for each in session.call(WhyTask(id_)).reasons}

    told = reasons["type_paused"]
    assert "in all queues by bob" in told.text
    assert "in the queue default by ann" in told.text
    assert "other" not in told.text
    assert told.advice == (
        "to go on: wherry types resume batch; and wherry types resume --queue=default batch"
    )
