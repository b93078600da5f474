"""A lease from a front takes what lease_tasks would take behind it, in the same order."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

from psycopg import sql

from tests.pg.support import OpenSession, Session, spec
from wherry.commands.base import Statement
from wherry.commands.fronts import MoveFront
from wherry.commands.leases import LeaseTasks
from wherry.domain.front import Front, Stretch
from wherry.domain.lease import Lease
from wherry.transport.render import render

DEAD = 20_000
# A front that has every place of a lease to look at: above, at, between and below its priorities.
STRETCHES = Front().past({5: 0, 0: 0, -3: 0})


def lease(session: Session, front: Front, n: int = 1, **options: Any) -> list[Lease]:
    return session.call(LeaseTasks(queue="default", worker="w", limit=n, front=front, **options))


def pages(session: Session, command: LeaseTasks) -> int:
    """Return how many pages a lease reads; what it leased is taken back."""
    statement = next(command.answer())
    assert isinstance(statement, Statement)
    rendered = render(statement.name, "wherry", "dollar")
    values = sql.SQL(", ").join(sql.Literal(statement.params[name]) for name in rendered.names)
    session.rows(f"prepare leasing as {rendered.text}")
    session.begin()
    query = sql.SQL("explain (analyze, buffers, format json) execute leasing({})").format(values)
    [[plans]] = session.connection.execute(query).fetchall()
    session.rollback()
    session.rows("deallocate leasing")
    plan = plans[0]["Plan"] if not isinstance(plans, str) else json.loads(plans)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def test_it_takes_them_by_priority_and_place_through_all_stretches(session: Session) -> None:
    priorities = [0, 5, -100, 5, 100, 0, -3, 2, -50, 0]
    tasks = session.enqueue_many(*(spec(priority=priority) for priority in priorities))
    order = sorted(range(10), key=lambda n: (-priorities[n], n))

    leases = [*lease(session, STRETCHES, 3), *lease(session, STRETCHES, 20)]

    assert [each.id for each in leases] == [tasks[n].id for n in order]


def test_it_takes_nothing_in_front_of_it(session: Session) -> None:
    tasks = session.enqueue_many(*(spec() for _ in range(3)))
    places = [place for (place,) in session.rows("select position from wherry.live order by 1")]

    leases = lease(session, Front((Stretch(100, -100, places[1]),)), 9)

    assert [each.id for each in leases] == [task.id for task in tasks[1:]]


def test_neighbours_take_what_the_other_has_not_locked_and_lock_no_more_than_they_take(
    session: Session, open_session: OpenSession
) -> None:
    tasks = session.enqueue_many(*(spec(priority=n % 3) for n in range(9)))
    first, second, third = session, open_session(), open_session()
    first.begin()
    second.begin()

    some = lease(first, STRETCHES, 4)
    more = lease(second, STRETCHES, 4)
    rest = lease(third, STRETCHES, 4)
    first.rollback()
    second.commit()

    assert [len(some), len(more), len(rest)] == [4, 4, 1]
    assert len({each.id for each in [*some, *more, *rest]}) == len(tasks)
    assert {each.id for each in lease(third, STRETCHES, 9)} == {each.id for each in some}


def test_a_task_that_changes_while_the_lease_waits_for_its_page_is_looked_at_again(
    session: Session, open_session: OpenSession
) -> None:
    """A row that is not what it was at the lease's snapshot is not taken for it."""
    task = session.enqueue()
    other = open_session()

    leases = session.call_around(
        LeaseTasks(queue="default", worker="w", front=STRETCHES),
        before="leases/lease_past_front",
        act=lambda: other.lease_one(),
    )

    assert leases == []
    assert session.task(task).attempts == 1


def test_what_is_refused_to_a_lease_is_refused_here(session: Session) -> None:
    other = session.enqueue("other")
    session.enqueue_many(spec(max_attempts=1), spec(max_attempts=1), spec())

    assert [each.id for each in lease(session, STRETCHES, 9, types=("other",))] == [other]
    assert len(lease(session, STRETCHES, 9, limit_last=1)) == 2
    session.rows("insert into wherry.paused (queue, paused_at) values ('default', now())")
    assert lease(session, STRETCHES, 9) == []


def test_dead_entries_that_a_snapshot_keeps_cost_a_lease_from_the_front_nothing(
    session: Session, open_session: OpenSession
) -> None:
    for _ in range(DEAD // 1000):
        session.enqueue_many(*(spec(priority=n % 2) for n in range(1000)))
    holder = open_session()
    holder.begin("repeatable read")
    holder.rows("select count(*) from wherry.settings")
    while leases := session.lease(1000):
        session.complete(*leases)
    _, horizon = session.call(MoveFront("default"))
    front, _ = session.call(MoveFront("default", (0, 1), horizon))
    session.enqueue_many(*(spec() for _ in range(50)))

    plain = pages(session, LeaseTasks(queue="default", worker="w", limit=10))
    past = pages(session, LeaseTasks(queue="default", worker="w", limit=10, front=front))

    assert plain > DEAD / 100
    assert past < 150


def test_two_that_lease_at_once_never_get_the_same(
    session: Session, open_session: OpenSession, start: Any
) -> None:
    session.enqueue_many(*(spec(priority=n % 7) for n in range(400)))

    def take(taker: Session) -> list[int]:
        return [each.id for _ in range(20) for each in lease(taker, STRETCHES, 10)]

    futures: list[Future[list[int]]] = [start(take, open_session()) for _ in range(4)]
    taken = [id_ for future in futures for id_ in future.result(timeout=60)]

    assert len(taken) == len(set(taken)) == 400
