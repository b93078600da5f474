"""Which tasks a lease takes, in which order, and what it writes.

Order O1: priority, then the moment of becoming ready, then id.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from tests.pg.support import OpenSession, Session, result_of, spec
from wherry.commands.maintenance import ParkTasks
from wherry.commands.workers import BeatWorker
from wherry.domain.lease import Lease, Rare
from wherry.testing import Clock

ODD = "\x01 \t \\ \U0001f600 \u2028"


def test_an_empty_queue_gives_nothing_and_writes_nothing(session: Session) -> None:
    session.enqueue(queue="elsewhere")
    before = session.dump()

    assert session.lease(10) == []

    assert session.dump() == before


@pytest.mark.parametrize("at_a_time", [1, 4, 10])
def test_higher_priority_goes_first_then_what_became_ready_first(
    session: Session, at_a_time: int
) -> None:
    """PRI-04, PRI-10: within a lease, and from one lease to the next."""
    tasks = session.enqueue_many(
        *(spec(payload={"n": n}, priority=p) for n, p in enumerate([0, 5, -100, 5, 100, 0]))
    )

    leases: list[Lease] = []
    while more := session.lease(at_a_time):
        leases += more

    numbers = [lease.payload["n"] for lease in leases]
    assert numbers == [4, 1, 3, 0, 5, 2]
    assert [lease.id for lease in leases] == [tasks[n].id for n in numbers]


def test_a_batch_is_leased_one_by_one_in_its_own_order(session: Session) -> None:
    tasks = session.enqueue_many(*(spec() for _ in range(300)))

    leased = [session.lease_one().id for _ in range(300)]

    assert leased == [task.id for task in tasks]


def test_a_task_given_back_stands_behind_those_that_were_ready_before(session: Session) -> None:
    first, second = session.enqueue(), session.enqueue()
    session.release(session.lease_one())

    assert [lease.id for lease in session.lease(2)] == [second, first]


def test_a_promoted_task_stands_where_it_became_ready_not_where_it_was_enqueued(
    session: Session, clock: Clock
) -> None:
    delayed = session.enqueue(delay=60)
    early = session.enqueue()
    clock.advance(minutes=2)
    session.promote()
    late = session.enqueue()

    assert [lease.id for lease in session.lease(3)] == [early, delayed, late]


def test_no_more_are_leased_than_asked_for(session: Session) -> None:
    session.enqueue_many(*(spec() for _ in range(20)))

    assert len(session.lease(7)) == 7
    assert session.value("select count(*) from wherry.live where state = 'leased'") == 7


def test_a_batch_of_leases_has_one_row_and_each_task_once(session: Session) -> None:
    session.enqueue_many(*(spec() for _ in range(5)))

    leases = session.lease(10, worker="w7")

    assert len({lease.id for lease in leases}) == 5
    assert len({lease.lease_id for lease in leases}) == 1
    [(lease_id, worker, ids)] = session.rows(
        "select lease_id::text, worker, task_ids from wherry.lease"
    )
    assert (lease_id, worker) == (leases[0].lease_id, "w7")
    assert sorted(ids) == sorted(lease.id for lease in leases)


def test_token_and_attempt_grow_by_one_at_each_lease(session: Session) -> None:
    session.enqueue()

    seen = []
    for _ in range(3):
        lease = session.lease_one()
        seen.append((lease.token, lease.attempt))
        session.fail(lease)

    assert seen == [(1, 1), (2, 2), (3, 3)]


def test_every_lease_has_an_id_of_its_own(session: Session) -> None:
    session.enqueue()
    seen = set()
    for _ in range(20):
        lease = session.lease_one()
        seen.add(lease.lease_id)
        session.release(lease)

    assert len(seen) == 20


def test_types_that_are_not_asked_for_stay(session: Session) -> None:
    a, b, c = (session.enqueue(type) for type in "abc")

    assert [lease.id for lease in session.lease(9, types=("a", "c"))] == [a, c]
    assert session.lease(9, types=("a", "c")) == []
    assert session.lease(9, types=()) == []
    assert [lease.id for lease in session.lease(9)] == [b]


def test_only_the_asked_queue_is_leased_from(session: Session) -> None:
    session.enqueue(queue="a")
    there = session.enqueue(queue="b")

    assert [lease.id for lease in session.lease(9, queue="b")] == [there]
    assert session.lease(9, queue="B") == []


def test_delayed_tasks_are_invisible_until_they_are_promoted(
    session: Session, clock: Clock
) -> None:
    session.enqueue(delay=60)
    session.enqueue(run_after=clock.now() + timedelta(minutes=1))
    assert session.lease(9) == []

    clock.advance(minutes=2)
    session.promote()

    assert len(session.lease(9)) == 2


def test_a_moment_in_the_past_is_due_now(session: Session, clock: Clock) -> None:
    id_ = session.enqueue(run_after=clock.now() - timedelta(days=400))

    assert session.lease_one().id == id_


def test_parked_tasks_are_invisible(session: Session) -> None:
    session.enqueue("unknown")
    session.call(
        BeatWorker(instance=UUID, name="w", host="h", pid=1, queues=None, types=("known",))
    )
    session.call(ParkTasks("default"))

    assert session.lease(9) == []


UUID = "00000000-0000-4000-8000-000000000001"


def test_a_task_past_its_time_to_live_is_not_started_even_before_it_is_discarded(
    session: Session, clock: Clock
) -> None:
    session.enqueue(ttl=60)
    fresh = session.enqueue(ttl=600)
    clock.advance(minutes=2)

    assert [lease.id for lease in session.lease(9)] == [fresh]


@pytest.mark.parametrize(
    ("limit_last", "expected"), [(0, [1, 3]), (1, [0, 1, 3]), (None, [0, 1, 2, 3])]
)
def test_tasks_on_their_last_attempt_are_bounded_apart(
    session: Session, limit_last: int | None, expected: list[int]
) -> None:
    session.enqueue_many(
        *(spec(payload={"n": n}, max_attempts=m) for n, m in enumerate([1, 2, 1, 2]))
    )

    leases = session.lease(4, limit_last=limit_last)

    assert [lease.payload["n"] for lease in leases] == expected


def test_what_was_left_for_being_on_its_last_attempt_is_as_it_was(session: Session) -> None:
    session.enqueue(max_attempts=1)
    before = session.dump()

    assert session.lease(1, limit_last=0) == []

    assert session.dump() == before
    assert len(session.lease(1, limit_last=1)) == 1


def test_a_lease_ends_by_the_clock_of_the_database(session: Session, clock: Clock) -> None:
    session.enqueue()
    clock.advance(hours=5)
    before = clock.now()

    session.lease_one(seconds=45)

    ends_at = session.value("select expires_at from wherry.lease")
    assert 45 <= (ends_at - before).total_seconds() < 65


def test_a_lease_carries_all_that_the_handler_needs(session: Session) -> None:
    session.enqueue(
        "mail", {"to": "a@example.com"}, priority=3, max_attempts=9, timeout=5, key="k",
        tags=["x", "y"], headers={"trace": "1"},
    )  # fmt: skip
    session.fail(session.lease_one())
    session.snooze(session.lease_one())

    lease = session.lease_one()

    assert lease.payload == {"to": "a@example.com"}
    assert (lease.type, lease.queue, lease.priority, lease.max_attempts) == (
        "mail",
        "default",
        3,
        9,
    )
    assert (lease.attempt, lease.token, lease.snoozes) == (2, 3, 1)
    assert (lease.timeout_seconds, lease.key, lease.tags) == (5.0, "k", ["x", "y"])
    assert lease.headers_text == '{"trace": "1"}'
    assert lease.last_error == "ValueError: no good"
    assert lease.leased_at == session.value("select leased_at from wherry.live")


def test_what_is_rare_comes_back_as_it_is_stored(session: Session) -> None:
    plain = session.enqueue()
    odd = session.enqueue()
    session.value(
        "update wherry.live set timeout_seconds = %s, tags = %s, retry = %s, last_error = %s,"
        " snoozes = 2 where id = %s returning id",
        0.1 + 0.2, ["", 'a"b'], '{"a":  1e2}', ODD, odd,
    )  # fmt: skip

    leases = {lease.id: lease for lease in session.lease(9)}

    assert leases[plain].rare == Rare()
    assert leases[odd].rare == Rare(
        timeout_seconds=0.1 + 0.2,
        tags=["", 'a"b'],
        retry_text='{"a":  1e2}',
        last_error=ODD,
        snoozes=2,
    )


def test_tasks_locked_by_another_lease_are_passed_over(session: Session, other: Session) -> None:
    first, second = session.enqueue(), session.enqueue()
    session.begin()
    session.lease_one()

    assert [lease.id for lease in other.lease(9)] == [second]

    session.rollback()
    assert [lease.id for lease in other.lease(9)] == [first]


def test_a_lease_that_is_rolled_back_never_was(session: Session) -> None:
    session.enqueue()
    before = session.dump()
    session.begin()
    session.lease_one()

    session.rollback()

    assert session.dump() == before


def test_eight_sessions_never_lease_the_same_task(
    session: Session, open_session: OpenSession, start: Callable[..., Future[Any]]
) -> None:
    """DBL-13: Each task is leased once."""
    session.enqueue_many(*(spec() for _ in range(500)))
    sessions = [open_session() for _ in range(8)]

    def drain(mine: Session) -> list[int]:
        ids: list[int] = []
        while leases := mine.lease(7):
            ids += [lease.id for lease in leases]
        return ids

    calls = [start(drain, each) for each in sessions]

    taken = [id_ for call in calls for id_ in result_of(call)]
    assert len(taken) == len(set(taken))
    # Rows that another session holds at this moment are passed over: look again.
    taken += [lease.id for lease in session.lease(500)]
    assert len(taken) == len(set(taken)) == 500


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_the_isolation_of_a_role_does_not_reach_our_own_sessions(
    session: Session, open_session: OpenSession, isolation: str, dsn: str
) -> None:
    database = session.value("select current_database()")
    session.rows(f"alter database {database} set default_transaction_isolation = '{isolation}'")
    session.enqueue_many(*(spec() for _ in range(3)))

    fresh = open_session()

    assert fresh.value("show transaction_isolation") == "read committed"
    assert len(fresh.lease(9)) == 3


def test_leases_find_room_where_their_tasks_were_stored(session: Session) -> None:
    session.enqueue_many(*(spec() for _ in range(5000)))
    rows_before, leaves_before = pages_of(session, "live"), pages_of(session, "live_pkey")

    while session.lease(1000):
        pass

    assert pages_of(session, "live") < 1.25 * rows_before
    # The last leaf is filled to its end, so it is split.
    assert pages_of(session, "live_pkey") <= leaves_before + 1


def pages_of(session: Session, relation: str) -> int:
    [[pages]] = session.rows(f"select pg_relation_size('wherry.{relation}') / 8192")
    return int(pages)
