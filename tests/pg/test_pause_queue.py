"""A paused queue is one that nothing is leased from; whatever else there is goes on."""

from __future__ import annotations

from tests.pg.support import Session, spec
from wherry.commands.queues import (
    ListQueues,
    ListReadyOf,
    ListReadyQueues,
    PauseQueue,
    ResumeQueue,
)
from wherry.commands.workers import WaitForTasks
from wherry.domain.lease import Reported
from wherry.domain.state import State
from wherry.domain.task import QueueDepth
from wherry.testing import Clock

WORKER = "00000000-0000-4000-8000-000000000001"


def notified(session: Session) -> list[str]:
    """Return the queues that the session was notified of by now."""
    session.rows("select 1")
    return [each.payload for each in session.connection.notifies(timeout=0)]


def test_nothing_is_leased_from_a_paused_queue_until_it_is_resumed(session: Session) -> None:
    session.enqueue()
    elsewhere = session.enqueue(queue="other")
    assert session.call(PauseQueue("default", "ann", "a flood")) is True

    assert session.lease(9) == []
    assert [lease.id for lease in session.lease(9, queue="other")] == [elsewhere]

    assert session.call(ResumeQueue("default"))
    assert len(session.lease(9)) == 1


def test_pausing_twice_keeps_the_first_words(session: Session, clock: Clock) -> None:
    session.call(PauseQueue("q", "ann", "first"))
    before = session.dump("paused")
    clock.advance(minutes=1)

    assert session.call(PauseQueue("q", "bob", "second")) is False

    assert session.dump("paused") == before


def test_resuming_what_is_not_paused_changes_nothing(session: Session) -> None:
    assert not session.call(ResumeQueue("q"))


def test_a_pause_stops_neither_enqueues_nor_heartbeats_nor_reports(session: Session) -> None:
    session.enqueue_many(*(spec() for _ in range(4)))
    done, failed, released, kept = session.lease(4)

    session.call(PauseQueue("default"))

    assert session.heartbeat(done, failed, released, kept) == [Reported.EXTENDED] * 4
    assert session.complete(done) == [Reported.DONE]
    assert session.fail(failed) == [Reported.REQUEUED]
    assert session.release(released) == [Reported.REQUEUED]
    assert session.enqueued().created
    assert session.task(kept.id).state is State.LEASED


def test_maintenance_goes_on_in_a_paused_queue(session: Session, clock: Clock) -> None:
    lost = session.enqueue()
    session.lease(seconds=5)
    delayed = session.enqueue(delay=5)
    session.call(PauseQueue("default"))
    clock.advance(seconds=6)

    reaped = session.reap()
    clock.advance(minutes=1)
    promoted = session.promote()

    assert (reaped.queued, promoted.promoted) == ((lost,), 2)
    session.call(ResumeQueue("default"))
    assert {lease.id for lease in session.lease(9)} == {lost, delayed}


def test_a_paused_queue_is_not_named_as_ready(session: Session) -> None:
    for queue in ("a", "b", "c"):
        session.enqueue(queue=queue)
    session.enqueue(queue="d", delay=60)

    session.call(PauseQueue("b"))

    assert session.call(ListReadyQueues()) == ["a", "c"]
    assert session.call(ListReadyOf(("d", "c", "b", "nobody", "a"))) == ["c", "a"]


def test_a_queue_whose_tasks_are_all_leased_is_not_ready(session: Session) -> None:
    session.enqueue()
    session.lease()

    assert session.call(ListReadyOf(("default",))) == []


def test_queues_are_listed_with_their_pauses_the_empty_ones_too(
    session: Session, clock: Clock
) -> None:
    session.enqueue(queue="busy")
    session.enqueue(queue="held")
    session.call(PauseQueue("held", "ann", "a flood"))
    session.call(PauseQueue("empty"))

    busy, empty, held = session.call(ListQueues())

    assert (busy.queue, busy.ready, busy.paused_at) == ("busy", 1, None)
    assert empty == QueueDepth("empty", 0, 0, 0, 0, None, paused_at=empty.paused_at)
    assert empty.paused_at is not None
    assert (held.queue, held.ready) == ("held", 1)
    assert (held.paused_by, held.pause_reason) == ("ann", "a flood")


def test_resuming_wakes_who_waits_for_the_queue(session: Session, other: Session) -> None:
    channel = session.value("select channel from wherry.settings")
    other.rows(f'listen "{channel}"')
    session.call(PauseQueue("default"))
    session.call(WaitForTasks(WORKER, ("default",), 30))
    session.enqueue()
    notified(other)

    session.call(ResumeQueue("default"))

    assert notified(other) == ["default"]
    session.call(ResumeQueue("default"))
    assert notified(other) == []


def test_resuming_wakes_nobody_if_nobody_waits(session: Session, other: Session) -> None:
    channel = session.value("select channel from wherry.settings")
    other.rows(f'listen "{channel}"')
    session.call(PauseQueue("default"))

    session.call(ResumeQueue("default"))

    assert notified(other) == []
