"""A front goes as far as the first ready task, and never past one that may still be committed."""

from __future__ import annotations

import pytest

from tests.pg.support import OpenSession, Session, spec
from wherry.commands.fronts import ListFronts, MoveFront, RescueTasks
from wherry.commands.leases import LeaseTasks
from wherry.commands.maintenance import UnparkTasks
from wherry.commands.queues import ListReadyOf, ListReadyQueues, PauseQueue
from wherry.commands.workers import BeatWorker
from wherry.domain.front import Front, Horizon
from wherry.domain.lease import Lease
from wherry.testing import Clock

TWO = "00000000-0000-4000-8000-000000000002"


def move(session: Session, *priorities: int, horizon: Horizon | None = None) -> Front:
    """Move the front of the queue `default`, as somebody who comes back after a while would."""
    if horizon is None:
        _, horizon = session.call(MoveFront("default"))
    front, _ = session.call(MoveFront("default", priorities, horizon))
    return front


def start_of(front: Front, priority: int = 0) -> int:
    [start] = [each.start for each in front.stretches if each.low <= priority <= each.high]
    return start


def lease_past(session: Session, front: Front, n: int = 100) -> list[Lease]:
    return session.call(LeaseTasks(queue="default", worker="w", limit=n, front=front))


def place_of(session: Session, id: int) -> int:
    place: int = session.value("select position from wherry.live where id = %s", id)
    return place


def test_a_front_that_nobody_has_moved_is_not_there(session: Session) -> None:
    session.enqueue()
    before = session.dump()

    front, horizon = session.call(MoveFront("default"))

    assert front == Front()
    assert horizon.writers == ()
    assert session.dump() == before
    assert session.call(ListFronts()) == {}


def test_it_stands_at_the_first_ready_task(session: Session) -> None:
    session.enqueue_many(*(spec() for _ in range(5)))
    session.lease(3)
    left, _ = (id_ for (id_,) in session.rows("select id from wherry.live where state = 'ready'"))

    front = move(session)

    assert start_of(front) == place_of(session, left)
    assert session.call(ListFronts()) == {"default": front}
    assert session.call(ListFronts(("other",))) == {}


def test_without_a_ready_task_it_stands_at_the_horizon_and_all_that_comes_is_behind_it(
    session: Session,
) -> None:
    session.enqueue()
    session.lease()

    front = move(session)
    late = session.enqueue()

    assert start_of(front) <= place_of(session, late)
    assert [lease.id for lease in lease_past(session, front)] == [late]


def test_it_waits_for_whoever_has_enqueued_and_not_committed(
    session: Session, open_session: OpenSession
) -> None:
    shop = open_session()
    shop.begin()
    late = shop.enqueue()
    session.enqueue()
    session.lease()

    _, horizon = session.call(MoveFront("default"))
    assert len(horizon.writers) == 1
    assert move(session, horizon=horizon) == Front()
    shop.commit()
    front = move(session, horizon=horizon)

    assert start_of(front) == place_of(session, late)
    assert [lease.id for lease in lease_past(session, front)] == [late]


def test_it_waits_for_a_prepared_transaction(session: Session, open_session: OpenSession) -> None:
    shop = open_session()
    shop.begin()
    late = shop.enqueue()
    _, horizon = session.call(MoveFront("default"))
    shop.rows("prepare transaction 'late'")

    assert move(session, horizon=horizon) == Front()
    shop.rows("commit prepared 'late'")

    assert [lease.id for lease in lease_past(session, move(session, horizon=horizon))] == [late]


@pytest.mark.parametrize(
    "act", ["select count(*) from wherry.live", "select pg_current_xact_id()", "select 1"]
)
def test_it_does_not_wait_for_a_snapshot_nor_for_who_writes_elsewhere(
    session: Session, open_session: OpenSession, act: str
) -> None:
    forgotten = open_session()
    forgotten.begin("repeatable read")
    forgotten.rows(act)
    session.enqueue()
    session.lease()

    assert start_of(move(session)) > 0


def test_what_is_being_leased_is_ready_until_that_is_committed(
    session: Session, open_session: OpenSession
) -> None:
    task = session.enqueue()
    _, horizon = session.call(MoveFront("default"))
    other = open_session()
    other.begin()
    other.lease()

    front = move(session, horizon=horizon)
    other.rollback()

    assert [lease.id for lease in lease_past(session, front)] == [task]


def test_whatever_becomes_ready_again_stands_behind_it(session: Session, clock: Clock) -> None:
    """Given back, failed, promoted, requeued, unparked: each draws a new place."""
    for _ in range(4):
        session.enqueue()
    given_back, failed, delayed, done = session.lease(4)
    session.complete(done)
    parked = session.enqueue("strange")
    session.rows("update wherry.live set state = 'parked' where id = %s", parked)
    front = move(session)

    session.release(given_back)
    session.fail(failed)
    session.fail(delayed, after=60)
    session.requeue(done.id)
    session.call(
        BeatWorker(instance=TWO, name="w", host="h", pid=1, queues=None, types=("strange",))
    )
    assert session.call(UnparkTasks()).unparked == 1
    clock.advance(minutes=2)
    session.promote()

    ids = [lease.id for lease in lease_past(session, front)]
    assert sorted(ids) == sorted([given_back.id, failed.id, delayed.id, done.id, parked])


def test_priorities_are_moved_each_by_itself_and_new_ones_are_found(session: Session) -> None:
    session.enqueue_many(*(spec(priority=priority) for priority in (5, 5, 0, 0)))
    [high] = session.lease(1)

    front = move(session, 5, 0)
    session.lease(9)
    front = move(session)
    above, below, same = (session.enqueue(priority=priority) for priority in (9, -7, 5))

    assert start_of(front, 5) > high.position
    assert start_of(front, 0) > high.position
    assert [lease.id for lease in lease_past(session, front)] == [above, same, below]


def test_a_front_that_was_moved_just_now_is_good_enough(session: Session, clock: Clock) -> None:
    _, horizon = session.call(MoveFront("default"))
    front = move(session, horizon=horizon)
    _, later = session.call(MoveFront("default"))

    assert move(session, horizon=later) == front
    clock.advance(seconds=1)
    assert start_of(move(session, horizon=later)) > start_of(front)


def test_who_commits_between_the_two_looks_is_seen_by_the_second(
    session: Session, open_session: OpenSession
) -> None:
    """Its row was invisible to the snapshot of the first, which saw that it had ended."""
    _, horizon = session.call(MoveFront("default"))
    shop = open_session()
    ids: list[int] = []

    front, _ = session.call_around(
        MoveFront("default", (), horizon),
        before="maintenance/find_first_ready",
        act=lambda: ids.append(shop.enqueue()),
    )

    assert [lease.id for lease in lease_past(session, front)] == ids


def test_queues_are_found_ready_from_their_fronts_on_and_between_them(session: Session) -> None:
    for queue in ("b", "d"):
        session.enqueue(queue=queue)
        session.lease(queue=queue)
        _, horizon = session.call(MoveFront(queue))
        session.call(MoveFront(queue, (0,), horizon))
    assert session.call(ListReadyQueues()) == []
    names = ("f", "e", "d", "c", "b", "a")
    for queue in names[:-1]:
        session.enqueue(queue=queue, priority=3)
    session.call(PauseQueue("e"))

    assert sorted(session.call(ListReadyQueues())) == ["b", "c", "d", "f"]
    assert session.call(ListReadyOf(names)) == ["f", "d", "c", "b"]
    session.rows("update wherry.live set position = 0 where queue = 'b'")
    assert sorted(session.call(ListReadyQueues())) == ["c", "d", "f"]
    assert session.call(ListReadyOf(names)) == ["f", "d", "c"]


def test_no_front_outlives_positions_that_were_set_back(session: Session, clock: Clock) -> None:
    """As by a restore, or a failover to a copy that lacked the last seconds: all stand in front."""
    session.rows("select setval('wherry.position', 10000)")
    front = move(session, 0)
    _, horizon = session.call(MoveFront("default"))
    session.rows("select setval('wherry.position', 10)")
    clock.advance(seconds=1)
    late = session.enqueue()

    assert move(session, horizon=horizon) == Front()
    assert session.call(ListFronts()) == {"default": front}
    clock.advance(minutes=1)
    session.call(RescueTasks())

    assert session.call(ListFronts()) == {}
    # Nor does a horizon that was drawn before.
    assert move(session, horizon=horizon) == Front()
    assert session.call(ListFronts()) == {}
    assert [lease.id for lease in lease_past(session, move(session))] == [late]
