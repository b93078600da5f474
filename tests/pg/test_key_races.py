"""Keys under every race: a reply is the same for all, and never a second task.

Whoever enqueues a key that an open transaction stores waits for it. If that one rolls back, the
task of the one who waited is the one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import psycopg
import pytest

from tests.pg.doors import DOORS, Door, library
from tests.pg.support import OpenSession, Session, result_of, spec
from wherry.domain.task import Enqueued
from wherry.testing import Clock

Start = Callable[..., Future[Any]]
UntilBlocked = Callable[[Session, Session], None]


@pytest.fixture(params=DOORS, ids=lambda door: str(door.__name__))
def door(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=DOORS, ids=lambda door: str(door.__name__))
def other_door(request: pytest.FixtureRequest) -> Any:
    return request.param


def end(session: Session) -> None:
    session.complete(*session.lease(9))


def test_the_second_waits_for_the_first_and_gets_its_task(
    session: Session,
    other: Session,
    start: Start,
    until_blocked: UntilBlocked,
    door: Door,
    other_door: Door,
) -> None:
    other.begin()
    first = door(other, "t", {"n": 1}, key="k")
    call = start(other_door, session, "t", {"n": 2}, key="k")
    until_blocked(session, other)

    other.commit()

    assert result_of(call) == Enqueued(first.id, False, False)
    assert session.value("select count(*) from wherry.live") == 1


def test_if_the_first_rolls_back_the_task_of_the_second_is_the_one(
    session: Session,
    other: Session,
    start: Start,
    until_blocked: UntilBlocked,
    door: Door,
    other_door: Door,
) -> None:
    other.begin()
    first = door(other, "t", {"n": 1}, key="k")
    call = start(other_door, session, "t", {"n": 2}, key="k")
    until_blocked(session, other)

    other.rollback()

    second = result_of(call)
    assert (second.created, second.payload_matches) == (True, True)
    assert second.id != first.id
    assert session.task(second.id).payload == {"n": 2}
    assert session.value("select count(*) from wherry.live") == 1


def test_of_many_waiting_ones_exactly_one_creates_the_task_when_the_first_rolls_back(
    session: Session, open_session: OpenSession, start: Start, until_blocked: UntilBlocked
) -> None:
    session.begin()
    library(session, key="k")
    waiting = [open_session() for _ in range(8)]
    calls = [
        start(door, each, key="k")
        for door, each in zip(itertools.cycle(DOORS), waiting, strict=False)
    ]
    for each in waiting:
        until_blocked(each, session)

    session.rollback()

    answers = [result_of(call) for call in calls]
    assert sorted(answer.created for answer in answers) == [False] * 7 + [True]
    assert len({answer.id for answer in answers}) == 1
    assert session.value("select count(*) from wherry.live") == 1


def test_twenty_concurrent_transactions_some_rolled_back_give_one_id(
    session: Session, open_session: OpenSession, start: Start
) -> None:
    sessions = [open_session() for _ in range(20)]

    def enqueue(n: int) -> Enqueued | None:
        mine = sessions[n]
        mine.begin()
        answer = DOORS[n % 2](mine, key="k")
        mine.rows("rollback" if n % 3 == 0 else "commit")
        return None if n % 3 == 0 else answer

    calls = [start(enqueue, n) for n in range(20)]

    answers = [answer for call in calls if (answer := result_of(call)) is not None]
    assert len({answer.id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    assert session.value("select count(*) from wherry.live") == 1


def test_a_waiting_enqueuer_is_bounded_by_its_own_lock_timeout(
    session: Session, other: Session, door: Door
) -> None:
    """IDM-09: A hot key holds up nobody but those who want it."""
    other.begin()
    door(other, key="hot")
    session.rows("set lock_timeout = '20ms'")

    with pytest.raises(psycopg.errors.LockNotAvailable):
        door(session, key="hot")

    # Other keys, and tasks without any, are not held up for a moment.
    session.rows("set lock_timeout = '1ms'")
    assert door(session, key="cold").created
    assert door(session).created
    other.rollback()


def test_a_known_key_is_answered_without_waiting_for_anybody_who_asks_for_it_too(
    session: Session, other: Session, door: Door
) -> None:
    first = door(session, key="hot")
    other.begin()
    assert door(other, key="hot").id == first.id
    session.rows("set lock_timeout = '1ms'")

    assert door(session, key="hot") == Enqueued(first.id, False, True)

    other.commit()


def test_a_known_key_is_answered_while_its_task_is_being_settled(
    session: Session, other: Session, door: Door
) -> None:
    first = door(session, key="k", key_ttl=0)
    other.begin()
    end(other)
    session.rows("set lock_timeout = '1ms'")

    assert door(session, key="k") == Enqueued(first.id, False, True)

    other.commit()
    assert door(session, key="k").created


@pytest.mark.parametrize("commits", [True, False])
def test_of_two_takeovers_one_wins_and_the_other_gets_its_task(
    session: Session,
    other: Session,
    start: Start,
    until_blocked: UntilBlocked,
    door: Door,
    other_door: Door,
    commits: bool,
) -> None:
    old = session.enqueue(key="k", key_ttl=0)
    end(session)
    other.begin()
    first = door(other, "t", {"n": 1}, key="k")
    assert first.created
    call = start(other_door, session, "t", {"n": 2}, key="k")
    until_blocked(session, other)

    other.rows("commit" if commits else "rollback")

    second = result_of(call)
    assert old not in (first.id, second.id)
    assert second.created is not commits
    assert (second.id == first.id) is commits
    assert second.payload_matches is not commits
    assert session.value("select count(*) from wherry.live") == 1


def test_many_takeovers_of_one_key_store_one_task(
    session: Session, open_session: OpenSession, start: Start
) -> None:
    for _ in range(10):
        session.enqueue(key="k", key_ttl=0)
        end(session)
        sessions = [open_session() for _ in range(6)]
        calls = [
            start(door, each, key="k", key_ttl=0)
            for door, each in zip(itertools.cycle(DOORS), sessions, strict=False)
        ]

        answers = [result_of(call) for call in calls]

        assert sum(answer.created for answer in answers) == 1
        assert len({answer.id for answer in answers}) == 1
        end(session)


def test_a_takeover_whose_winner_has_ended_meanwhile_answers_some_task(
    session: Session, other: Session, start: Start, until_blocked: UntilBlocked, door: Door
) -> None:
    session.enqueue(key="k", key_ttl=0)
    end(session)
    other.begin()
    first = other.enqueue(key="k", key_ttl=0)
    call = start(door, session, key="k", key_ttl=0)
    until_blocked(session, other)
    end(other)

    other.commit()

    answer = result_of(call)
    assert session.find(answer.id) is not None
    assert (answer.id == first) is not answer.created


@pytest.mark.parametrize("commits", [True, False])
def test_two_batches_in_opposite_orders_do_not_deadlock(
    session: Session,
    other: Session,
    start: Start,
    until_blocked: UntilBlocked,
    commits: bool,
) -> None:
    keys = [f"k{n}" for n in range(30)]
    other.begin()
    first = other.enqueue_many(*(spec(key=key) for key in keys))
    call = start(session.enqueue_many, *(spec(key=key) for key in reversed(keys)))
    until_blocked(session, other)

    other.rows("commit" if commits else "rollback")

    second = result_of(call)
    assert {a.created for a in second} == {not commits}
    if commits:
        assert [a.id for a in reversed(second)] == [a.id for a in first]
    assert session.value("select count(*) from wherry.live") == 30


def test_many_shuffled_batches_at_once_never_deadlock(
    session: Session, open_session: OpenSession, start: Start
) -> None:
    # New, known, ended and free keys, so that every way through the statement is gone.
    known = [f"known{n}" for n in range(10)]
    ended = [f"ended{n}" for n in range(10)]
    session.enqueue_many(
        *(spec(key=key, key_ttl=0 if n % 2 else None) for n, key in enumerate(ended))
    )
    end(session)
    session.complete(*session.lease(10))
    session.enqueue_many(*(spec(key=key) for key in known))
    fresh = [f"new{n}" for n in range(10)]
    keys = known + ended + fresh
    sessions = [open_session() for _ in range(6)]

    def enqueue(n: int) -> list[Enqueued]:
        turned = keys[n * 5 :] + keys[: n * 5]
        mixed = turned if n % 2 else turned[::-1]
        answers = sessions[n].enqueue_many(*(spec(key=key) for key in mixed))
        return [answer for _, answer in sorted(zip(mixed, answers, strict=True))]

    calls = [start(enqueue, n) for n in range(6)]

    answers = [result_of(call) for call in calls]
    for same in zip(*answers, strict=True):
        assert len({answer.id for answer in same}) == 1
        assert sum(answer.created for answer in same) <= 1


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_key_stored_after_the_snapshot_is_a_serialization_failure_never_a_second_task(
    session: Session, other: Session, door: Door, isolation: str
) -> None:
    other.begin(isolation)
    other.rows("select 1 from wherry.settings")
    first = door(session, key="k")

    with pytest.raises(psycopg.errors.SerializationFailure):
        door(other, key="k")

    other.rollback()
    assert door(other, key="k").id == first.id


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_in_the_stricter_isolations_keys_work_as_long_as_nobody_interferes(
    session: Session, door: Door, clock: Clock, isolation: str
) -> None:
    known = door(session, key="known").id
    session.enqueue(key="free", key_ttl=0, priority=5)
    session.complete(session.lease_one())
    session.begin(isolation)

    answers = [door(session, key=key) for key in ("new", "known", "free", "new", "free")]
    session.commit()

    assert [a.created for a in answers] == [True, False, True, False, False]
    assert answers[1].id == known
    assert session.value("select count(*) from wherry.live") == 3


def test_a_waiting_enqueuer_in_a_stricter_isolation_fails_cleanly(
    session: Session, other: Session, start: Start, until_blocked: UntilBlocked, door: Door
) -> None:
    other.begin()
    door(other, key="k")
    session.begin("repeatable read")
    call = start(door, session, key="k")
    until_blocked(session, other)

    other.commit()

    with pytest.raises(psycopg.errors.SerializationFailure):
        result_of(call)
    session.rollback()
