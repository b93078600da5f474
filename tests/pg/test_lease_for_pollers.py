"""One statement that serves many waiting workers: who gets which tasks, and what it writes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from tests.pg.support import OpenSession, Session, result_of, spec
from wherry.commands.leases import LeaseForPollers
from wherry.commands.queues import PauseQueue
from wherry.domain.lease import Lease, Poller, Reported
from wherry.testing import Clock


def poll(
    session: Session,
    *pollers: Poller,
    queue: str = "default",
    types: tuple[str, ...] | None = None,
) -> list[list[Lease]]:
    return session.call(LeaseForPollers(queue, types, pollers))


def pollers(*limits: int, last: int | None = None) -> list[Poller]:
    return [Poller(f"w{n}", limit, last) for n, limit in enumerate(limits)]


def enqueue(session: Session, n: int, **options: Any) -> list[int]:
    return [each.id for each in session.enqueue_many(*(spec(**options) for _ in range(n)))]


def ids(answers: list[list[Lease]]) -> list[list[int]]:
    return [[lease.id for lease in leases] for leases in answers]


def flat(answers: list[list[Lease]]) -> list[int]:
    return [lease.id for leases in answers for lease in leases]


def test_few_tasks_go_to_as_many_pollers(session: Session) -> None:
    one, two, three = enqueue(session, 3)

    answers = poll(session, *pollers(100, 100, 100, 100, 100))

    assert ids(answers) == [[one], [two], [three], [], []]


def test_many_tasks_are_dealt_out_in_turns_until_the_limits(session: Session) -> None:
    tasks = enqueue(session, 20)

    answers = poll(session, *pollers(2, 9, 0, 4))

    assert [len(leases) for leases in answers] == [2, 9, 0, 4]
    assert sorted(flat(answers)) == tasks[:15]
    # The first turn first: each poller's best task is among the best of all.
    assert ids(answers)[0] == [tasks[0], tasks[3]]


def test_the_highest_priority_goes_first_then_the_longest_ready(session: Session) -> None:
    low, high, middle, later = (session.enqueue(priority=n) for n in (-5, 9, 0, 0))

    answers = poll(session, *pollers(2, 1))

    assert ids(answers) == [[high, later], [middle]]
    assert ids(poll(session, *pollers(1))) == [[low]]


def test_each_poller_has_a_lease_of_its_own(session: Session) -> None:
    enqueue(session, 5)

    mine, others = poll(session, Poller("a", 3), Poller("b", 9))

    rows = session.rows(
        "select lease_id::text, worker, queue, task_ids, split from wherry.lease order by worker"
    )
    assert [(row[0], row[1], row[2], sorted(row[3]), row[4]) for row in rows] == [
        (leases[0].lease_id, name, "default", sorted(lease.id for lease in leases), False)
        for name, leases in (("a", mine), ("b", others))
    ]
    assert session.complete(*mine, closed=[mine[0].lease_id]) == [Reported.DONE] * 3
    assert session.heartbeat(*others) == [Reported.EXTENDED] * 2
    assert session.complete(*others, closed=[others[0].lease_id]) == [Reported.DONE] * 2
    assert session.dump("lease", "live") == {"lease": [], "live": []}


def test_two_polls_of_one_worker_are_two_leases(session: Session) -> None:
    enqueue(session, 2)

    [one], [two] = poll(session, Poller("w", 1), Poller("w", 1))

    assert one.lease_id != two.lease_id


def test_a_lease_is_what_it_would_have_been_by_itself(session: Session) -> None:
    session.enqueue("t", {"n": 1}, key="k", tags=["a"], headers={"h": "v"}, timeout=5)
    session.enqueue("t", {"n": 1}, key="l", tags=["a"], headers={"h": "v"}, timeout=5)

    alone = session.lease_one()
    [[together]] = poll(session, Poller("w", 1))

    different = {"position", "_times", "_rare"}
    for name in set(Lease.__slots__) - different:
        assert getattr(together, name) == getattr(alone, name), name
    assert together.rare == alone.rare._replace(key="l")
    assert (together.attempt, together.token) == (1, 1)


def test_each_lease_lasts_as_long_as_its_poller_asked_for(session: Session) -> None:
    enqueue(session, 2)

    [[short], [long]] = poll(
        session, Poller("a", 1, lease_seconds=5.5), Poller("b", 1, lease_seconds=600)
    )

    lasts = dict(
        session.rows(
            "select worker, expires_at - leased_at"
            "  from wherry.lease join wherry.live using (lease_id)"
        )
    )
    assert lasts == {"a": timedelta(seconds=5.5), "b": timedelta(seconds=600)}
    assert 5 < short.remaining <= 5.5
    assert 590 < long.remaining <= 600


def test_a_task_on_its_last_attempt_is_for_those_who_take_some(session: Session) -> None:
    lasts = enqueue(session, 3, max_attempts=1)
    others = enqueue(session, 3)

    none, one, any_number = poll(session, Poller("a", 2, 0), Poller("b", 2, 1), Poller("c", 2))

    assert [lease.id for lease in none] == others[:2]
    assert [lease.id for lease in one] == [lasts[0], others[2]]
    assert [lease.id for lease in any_number] == lasts[1:]


def test_more_last_attempts_than_anybody_takes_stay(session: Session) -> None:
    lasts = enqueue(session, 4, max_attempts=1)

    answers = poll(session, *pollers(9, 9, last=1))

    assert ids(answers) == [[lasts[0]], [lasts[1]]]
    assert session.value("select count(*) from wherry.live where state = 'ready'") == 2


@pytest.mark.parametrize("last", [0, 1, None])
def test_ordinary_tasks_are_for_all_whatever_they_take_of_last_ones(
    session: Session, last: int | None
) -> None:
    enqueue(session, 6)

    answers = poll(session, *pollers(3, 3, 3, last=last))

    assert [len(leases) for leases in answers] == [2, 2, 2]


def test_only_the_types_asked_for_are_leased(session: Session) -> None:
    session.enqueue("a")
    known = session.enqueue("b"), session.enqueue("c")

    answers = poll(session, *pollers(5), types=("b", "c"))

    assert ids(answers) == [list(known)]
    assert ids(poll(session, *pollers(5), types=())) == [[]]


def test_what_is_not_ready_or_elsewhere_is_not_leased(session: Session, clock: Clock) -> None:
    session.enqueue(queue="elsewhere")
    session.enqueue(delay=60)
    session.enqueue(ttl=1)
    clock.advance(seconds=2)
    before = session.dump()

    assert poll(session, *pollers(5, 5)) == [[], []]

    assert session.dump() == before


def test_nothing_is_leased_from_a_paused_queue(session: Session) -> None:
    enqueue(session, 2)
    session.call(PauseQueue("default"))

    assert poll(session, *pollers(5, 5)) == [[], []]


def test_nobody_waiting_and_nobody_with_room_are_answered(session: Session) -> None:
    enqueue(session, 2)

    assert poll(session) == []
    assert poll(session, *pollers(0, 0)) == [[], []]


def test_one_statement_leases_a_thousand_at_most(session: Session) -> None:
    enqueue(session, 1010)

    answers = poll(session, *pollers(*[900] * 3))

    assert [len(leases) for leases in answers] == [334, 333, 333]


def test_more_pollers_than_one_statement_serves_are_answered(session: Session) -> None:
    enqueue(session, 3)

    answers = poll(session, *pollers(*[1] * 1200))

    assert [len(leases) for leases in answers] == [1] * 3 + [0] * 1197


@pytest.mark.parametrize("compressed", [False, True])
def test_no_more_is_leased_once_the_payloads_have_as_many_bytes(
    session: Session, compressed: bool
) -> None:
    text = "x" * 20_000
    if not compressed:
        session.rows("alter table wherry.live alter payload set storage external")
    tasks = [enqueue(session, 1, payload={"text": text})[0] for _ in range(5)]

    found = session.call(
        LeaseForPollers("default", None, tuple(pollers(1, 10)), limit_bytes=40_000)
    )
    large = session.call(LeaseForPollers("default", None, tuple(pollers(10)), limit_bytes=1))

    assert ids(found) == [[tasks[0]], [tasks[1]]]
    # One at least, however large.
    assert ids(large) == [[tasks[2]]]


def test_tasks_on_their_last_attempt_that_nobody_takes_use_up_no_bytes(session: Session) -> None:
    text = "x" * 20_000
    enqueue(session, 3, payload={"text": text}, max_attempts=1, priority=9)
    [ordinary] = enqueue(session, 1, payload={"text": text})

    found = session.call(
        LeaseForPollers("default", None, tuple(pollers(9, last=0)), limit_bytes=20_000)
    )

    assert ids(found) == [[ordinary]]


def test_two_statements_at_once_lease_no_task_twice(session: Session, other: Session) -> None:
    tasks = enqueue(session, 10)
    session.begin()

    mine = poll(session, *pollers(3, 3))
    theirs = poll(other, *pollers(3, 3))

    session.commit()
    leased = flat(mine + theirs)
    assert sorted(leased) == tasks
    assert len(flat(theirs)) == 4


def test_many_statements_at_once_lease_each_task_once(
    open_session: OpenSession, start: Callable[..., Future[Any]]
) -> None:
    sessions = [open_session() for _ in range(4)]
    tasks = enqueue(sessions[0], 300)

    def all_of_them(session: Session) -> list[int]:
        found: list[int] = []
        while more := flat(poll(session, *pollers(4, 4, 4))):
            found += more
        return found

    leased = [result_of(each) for each in [start(all_of_them, session) for session in sessions]]

    assert sorted([id_ for found in leased for id_ in found]) == tasks
    assert sessions[0].value("select count(*) from wherry.live where attempts <> 1") == 0
