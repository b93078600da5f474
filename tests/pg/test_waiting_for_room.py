"""Who waits for room in a limited queue, or for its rate, is told when it is worth a look.

LOST-12: nobody has to look again and again to find that a place is free.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.pg.limited import fill, limit
from tests.pg.support import Session
from wherry.commands.queues import ListReadyOf, ListReadyQueues, ListStarts, PauseQueue
from wherry.commands.workers import WaitForTasks
from wherry.domain.lease import Lease
from wherry.testing import Clock

WORKER = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    "end",
    [
        Session.complete,
        Session.fail,
        lambda session, lease: session.fail(lease, verdict="fail"),
        lambda session, lease: session.fail(lease, after=60.0),
        Session.release,
        Session.snooze,
        lambda session, lease: session.snooze(lease, delay=60.0),
    ],
    ids=["complete", "fail", "fail for good", "fail for now", "release", "snooze", "snooze long"],
)
def test_who_waits_for_room_is_woken_by_whatever_ends_a_lease(
    session: Session, other: Session, end: Callable[[Session, Lease], object]
) -> None:
    """LOST-12: nobody has to look again to find that there is room."""
    limit(session, max_running=1)
    fill(session, 2)
    [lease] = session.lease()
    other.rows(f'listen "{session.value("select channel from wherry.settings")}"')
    session.call(WaitForTasks(WORKER, ("default",), 30))

    end(session, lease)

    assert notified(other) == ["default"]
    assert len(session.lease(9)) == 1


def test_who_waits_for_room_is_woken_when_a_lease_is_taken_back(
    session: Session, other: Session, clock: Clock
) -> None:
    limit(session, max_running=1)
    fill(session, 2)
    session.lease(seconds=5)
    other.rows(f'listen "{session.value("select channel from wherry.settings")}"')
    clock.advance(seconds=60)
    session.call(WaitForTasks(WORKER, ("default",), 30))

    session.reap()

    assert notified(other) == ["default"]


def test_nobody_is_woken_by_a_queue_without_a_limit_of_what_runs(
    session: Session, other: Session
) -> None:
    limit(session, rate=100, per=1)
    limit(session, "other", max_running=1)
    fill(session, 2)
    [lease] = session.lease()
    session.call(WaitForTasks(WORKER, ("default",), 30))
    other.rows(f'listen "{session.value("select channel from wherry.settings")}"')

    session.complete(lease)

    assert notified(other) == []


def notified(session: Session) -> list[str]:
    """Return what the session was notified of by now."""
    session.rows("select 1")
    return [each.payload for each in session.connection.notifies(timeout=0)]


def test_a_change_of_limits_is_told_to_all_who_listen(session: Session, other: Session) -> None:
    other.rows(f'listen "{session.value("select channel from wherry.settings")}"')

    assert limit(session, max_running=1)
    assert notified(other) == [""]
    assert not limit(session, max_running=1)
    assert notified(other) == []
    assert limit(session)
    assert notified(other) == [""]
    assert not limit(session)
    assert notified(other) == []


def test_a_full_queue_is_not_named_as_ready(session: Session) -> None:
    for queue in ("a", "b", "c"):
        fill(session, 2, queue=queue)
    limit(session, "a", max_running=1)
    limit(session, "b", rate=1, per=3600, burst=1)
    limit(session, "c", max_running=1)
    session.lease(queue="a")
    session.lease(queue="b")

    assert session.call(ListReadyQueues()) == ["c"]
    assert session.call(ListReadyOf(("c", "b", "a"))) == ["c"]


def test_when_the_next_task_may_start_is_told_where_one_waits(
    session: Session, clock: Clock
) -> None:
    began = clock.now()
    for queue in ("waits", "empty", "paused", "free", "only"):
        limit(session, queue, rate=1, per=10, burst=1)
        fill(session, 1 if queue in ("empty", "free") else 2, queue=queue)
    limit(session, "only", max_running=1)
    for queue in ("waits", "empty", "paused"):
        session.lease(queue=queue)
    session.call(PauseQueue("paused"))
    clock.advance(seconds=4)

    starts = session.call(ListStarts(None))
    passed = (clock.now() - began).total_seconds()

    waits, free = starts.pop("waits"), starts.pop("free")
    assert starts == {"empty": None, "paused": None}
    assert waits is not None
    assert 10 - passed <= waits <= 6
    assert free is not None
    assert -passed <= free <= -4
    assert [*session.call(ListStarts(("waits", "nobody")))] == ["waits"]
