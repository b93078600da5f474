"""A ready task that a hand has put in front of the front does not wait there for ever."""

from __future__ import annotations

from tests.pg.support import Session, spec
from tests.pg.test_move_front import lease_past, move
from wherry.commands.fronts import ListFronts, Rescued, RescueTasks
from wherry.testing import Clock


def test_a_task_in_front_of_the_front_gets_a_place_behind_it(
    session: Session, clock: Clock
) -> None:
    session.enqueue_many(spec(priority=5), spec())
    session.lease(2)
    front = move(session, 5, 0)
    strays = session.enqueue(priority=5), session.enqueue(), session.enqueue(queue="elsewhere")
    session.rows("update wherry.live set position = 0 where state = 'ready'")
    assert lease_past(session, front) == []
    clock.advance(minutes=1)

    assert session.call(RescueTasks()) == Rescued(2)

    assert [lease.id for lease in lease_past(session, front)] == list(strays[:2])


def test_it_looks_only_now_and_then_whoever_asks(session: Session, clock: Clock) -> None:
    front = move(session)
    session.enqueue()
    session.rows("update wherry.live set position = 0")

    assert session.call(RescueTasks()) == Rescued(0)
    clock.advance(seconds=31)
    assert session.call(RescueTasks()) == Rescued(1)
    session.rows("update wherry.live set position = 0")
    assert session.call(RescueTasks()) == Rescued(0)
    # A front that was moved meanwhile has the same time for it.
    clock.advance(seconds=20)
    move(session)
    clock.advance(seconds=11)
    assert session.call(RescueTasks()) == Rescued(1)
    assert lease_past(session, front) != []


def test_more_than_one_batch_is_rescued_at_once(session: Session, clock: Clock) -> None:
    move(session)
    session.enqueue_many(*(spec() for _ in range(5)))
    session.rows("update wherry.live set position = 0")
    clock.advance(minutes=1)

    found = [session.call(RescueTasks(batch=2)).rescued for _ in range(4)]

    assert found == [2, 2, 1, 0]


def test_fronts_that_were_replaced_are_forgotten_and_the_newest_stays_for_a_day(
    session: Session, clock: Clock
) -> None:
    move(session)
    clock.advance(minutes=2)
    newest = move(session)
    session.call(RescueTasks())
    assert session.call(ListFronts()) == {"default": newest}
    assert session.value("select min(noted_at) = max(noted_at) from wherry.front")
    clock.advance(hours=23)
    session.call(RescueTasks())
    assert session.call(ListFronts()) == {"default": newest}
    clock.advance(hours=2)

    session.call(RescueTasks())

    assert session.call(ListFronts()) == {}


def test_nothing_is_written_where_there_is_no_front(session: Session) -> None:
    session.enqueue()
    before = session.dump()

    assert session.call(RescueTasks()) == Rescued(0)

    assert session.dump() == before
