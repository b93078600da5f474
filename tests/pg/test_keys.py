"""A key names one task from its enqueue until its time after the end of that task is over.

Both doors keep the same rules. The races are in test_key_races.py.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.pg.doors import DOORS, Door, library, plain_sql
from tests.pg.support import Session, spec
from wherry.commands.maintenance import DiscardTasks, DropPastDays
from wherry.domain.task import Enqueued
from wherry.testing import Clock

ENDS = ("complete", "fail", "last", "cancel", "cancel queued", "expire", "lose")


@pytest.fixture(params=DOORS, ids=lambda door: str(door.__name__))
def door(request: pytest.FixtureRequest) -> Any:
    return request.param


def end(session: Session, clock: Clock, how: str) -> None:
    """End the only task there is."""
    [(id_,)] = session.rows("select id from wherry.live")
    if how == "cancel queued":
        session.cancel(id_)
        return
    lease = session.lease_one()
    match how:
        case "complete":
            session.complete(lease)
        case "fail":
            session.fail(lease, verdict="fail")
        case "cancel":
            session.fail(lease, verdict="cancel")
        case "last":
            session.rows("update wherry.live set max_attempts = 1")
            session.fail(lease)
        case "lose":
            session.rows("update wherry.live set max_attempts = 1")
            clock.advance(seconds=31)
            session.reap()
        case _:
            session.rows("update wherry.live set discard_at = wherry.now()")
            session.release(lease)
            session.call(DiscardTasks())
    assert session.value("select count(*) from wherry.live") == 0


def test_the_first_enqueue_of_a_key_creates_its_task(session: Session, door: Door) -> None:
    answer = door(session, key="k")

    assert (answer.created, answer.payload_matches) == (True, True)
    assert session.task(answer.id).key == "k"


@pytest.mark.parametrize("again", DOORS, ids=lambda door: str(door.__name__))
def test_a_key_seen_before_gives_the_same_id_and_stores_nothing(
    session: Session, door: Door, again: Door
) -> None:
    first = door(session, key="k")
    before = session.dump("live")

    for _ in range(3):
        assert again(session, key="k") == Enqueued(first.id, False, True)

    assert session.dump("live") == before


def test_whoever_sends_another_payload_or_type_is_told(session: Session, door: Door) -> None:
    first = door(session, "t", {"n": 1}, key="k")

    for type_, payload in [("t", {"n": 2}), ("u", {"n": 1}), ("t", {}), ("t", {"n": 1, "m": 1})]:
        answer = door(session, type_, payload, key="k")
        assert answer == Enqueued(first.id, False, False)

    assert session.task(first.id).payload == {"n": 1}


def test_other_options_are_no_other_payload(session: Session, door: Door) -> None:
    door(session, "t", {"n": 1}, key="k", priority=5)

    assert door(session, "t", {"n": 1}, key="k", priority=9, delay=60).payload_matches is True


@pytest.mark.parametrize("other", ["K", "k ", " k", "k\u0301", "\u212a", "kk"])
def test_keys_are_compared_letter_by_letter(session: Session, door: Door, other: str) -> None:
    door(session, key="k")

    assert door(session, key=other).created


def test_a_key_belongs_to_its_queue(session: Session, door: Door) -> None:
    here, there = door(session, key="k"), door(session, key="k", queue="other")

    assert there.created
    assert here.id != there.id


def test_a_leased_and_a_retried_task_keep_their_key(
    session: Session, clock: Clock, door: Door
) -> None:
    first = door(session, key="k", key_ttl=0)
    lease = session.lease_one()
    assert door(session, key="k").id == first.id
    session.fail(lease, after=60)
    assert door(session, key="k").id == first.id
    clock.advance(seconds=61)
    session.promote()

    again = session.lease_one()

    assert (again.id, again.attempt) == (first.id, 2)


@pytest.mark.parametrize("how", ENDS)
def test_a_key_without_time_of_its_own_may_be_used_as_soon_as_its_task_has_ended(
    session: Session, clock: Clock, door: Door, how: str
) -> None:
    """IDM-04."""
    first = door(session, key="k", key_ttl=0)
    end(session, clock, how)

    second = door(session, "t", {"n": 2}, key="k")

    assert second.created
    assert second.payload_matches is True
    assert second.id != first.id
    assert session.find(first.id) is not None


@pytest.mark.parametrize("how", ENDS)
def test_a_key_lives_for_its_time_after_the_end_whatever_the_end(
    session: Session, clock: Clock, door: Door, how: str
) -> None:
    first = door(session, key="k", key_ttl=timedelta(hours=1))
    clock.advance(hours=5)
    end(session, clock, how)
    clock.advance(minutes=59)
    assert door(session, key="k") == Enqueued(first.id, False, True)

    clock.advance(minutes=2)

    assert door(session, key="k").created


@pytest.mark.parametrize(("how", "days"), [("complete", 7), ("cancel", 7), ("last", 30)])
def test_by_default_a_key_lives_as_long_as_the_finished_task_is_kept(
    session: Session, clock: Clock, door: Door, how: str, days: int
) -> None:
    """IDM-03, IDM-04."""
    first = door(session, key="k")
    end(session, clock, how)
    clock.advance(days=days, minutes=-1)
    assert door(session, key="k") == Enqueued(first.id, False, True)

    # The time is over, though the row may be there until its whole day is.
    clock.advance(minutes=2)

    assert door(session, key="k").created


def test_after_retention_has_removed_the_task_its_key_is_free_and_gone(
    session: Session, clock: Clock, door: Door
) -> None:
    """IDM-03."""
    first = door(session, key="k")
    end(session, clock, "complete")
    clock.advance(days=9)
    while session.call(DropPastDays()):
        pass
    assert session.find(first.id) is None
    assert session.dump("key") == {"key": []}

    assert door(session, key="k").created


def test_a_key_that_names_a_task_nobody_knows_any_more_is_free(
    session: Session, door: Door
) -> None:
    first = door(session, key="k")
    session.rows("delete from wherry.live")

    second = door(session, key="k")

    assert second.created
    assert second.id != first.id


def test_a_takeover_gives_the_key_to_the_new_task_alone(
    session: Session, clock: Clock, door: Door
) -> None:
    door(session, "t", {"n": 1}, key="k", key_ttl=0)
    end(session, clock, "complete")
    second = door(session, "t", {"n": 2}, key="k", key_ttl=60)

    assert door(session, "t", {"n": 1}, key="k") == Enqueued(second.id, False, False)
    assert door(session, "t", {"n": 2}, key="k") == Enqueued(second.id, False, True)
    assert session.value("select count(*) from wherry.key") == 1


def test_a_key_can_be_used_again_and_again(session: Session, clock: Clock, door: Door) -> None:
    ids = []
    for _ in range(5):
        ids.append(door(session, key="k", key_ttl=0).id)
        end(session, clock, "complete")

    assert len(set(ids)) == 5


def test_the_same_key_twice_in_one_call_is_one_task_reported_twice(session: Session) -> None:
    answers = session.enqueue_many(
        spec(payload={"n": 1}, key="k"), spec(), spec(payload={"n": 2}, key="k"), spec(key="k")
    )

    first = answers[0].id
    assert [(a.id == first, a.created, a.payload_matches) for a in answers] == [
        (True, True, True),
        (False, True, None),
        (True, False, False),
        (True, False, False),
    ]
    assert session.value("select count(*) from wherry.live") == 2


def test_a_call_mixes_new_known_ended_and_free_keys_in_its_order(
    session: Session, clock: Clock
) -> None:
    """IDM-08: One answer for each task of a batch, in order."""
    free = session.enqueue(key="free", key_ttl=0)
    end(session, clock, "complete")
    ended = session.enqueue(key="ended")
    end(session, clock, "fail")
    known = session.enqueue(key="known")

    answers = session.enqueue_many(
        *(spec(key=key) for key in ("new", "ended", None, "free", "known", "new", "free", "ended"))
    )

    assert [a.created for a in answers] == [True, False, True, True, False, False, False, False]
    assert (answers[1].id, answers[4].id) == (ended, known)
    assert answers[3].id not in (free, ended, known)
    assert (answers[5].id, answers[6].id, answers[7].id) == (
        answers[0].id, answers[3].id, ended,
    )  # fmt: skip
    assert session.value("select count(*) from wherry.live") == 4


def test_a_call_of_ended_keys_alone_stores_nothing(session: Session, clock: Clock) -> None:
    ids = [session.enqueue(key=key) for key in "ab"]
    session.complete(*session.lease(2))

    answers = session.enqueue_many(*(spec(key=key) for key in "aba"))

    assert [(a.id, a.created) for a in answers] == [
        (ids[0], False), (ids[1], False), (ids[0], False),
    ]  # fmt: skip


def test_the_same_key_of_two_queues_in_one_call_is_two_tasks(session: Session) -> None:
    answers = session.enqueue_many(spec(key="k", queue="a"), spec(key="k", queue="b"))

    assert [a.created for a in answers] == [True, True]


def test_a_thousand_keys_half_of_them_known(session: Session) -> None:
    known = session.enqueue_many(*(spec(key=f"k{n}") for n in range(0, 1000, 2)))

    answers = session.enqueue_many(*(spec(key=f"k{n}") for n in range(1000)))

    assert [a.id for a in answers[::2]] == [a.id for a in known]
    assert [a.created for a in answers] == [False, True] * 500
    assert session.value("select count(*) from wherry.live") == 1000


def test_an_insert_of_the_same_key_twice_in_one_statement_of_plain_sql(session: Session) -> None:
    rows = session.rows(
        "select e.id, e.created from generate_series(1, 3) as n,"
        " lateral wherry.enqueue('default', 't', jsonb_build_object('n', n), key => 'k') as e"
    )

    assert [created for _, created in rows] == [True, False, False]
    assert len({id_ for id_, _ in rows}) == 1


def test_an_uncommitted_key_of_the_same_transaction_is_known(session: Session) -> None:
    session.begin()
    first = library(session, key="k")

    assert plain_sql(session, key="k") == Enqueued(first.id, False, True)

    session.commit()
