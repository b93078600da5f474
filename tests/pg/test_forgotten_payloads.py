"""Large payloads go with their tasks, no sooner and no later, and not with others of that id."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import wherry
from tests.pg.large import (
    LARGE,
    alone,
    ids_apart,
    one,
    with_a_key,
)
from tests.pg.support import Session, spec
from wherry.commands.maintenance import DropPastDays
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks, new_token
from wherry.testing import Clock
from wherry.transport.faults import is_taken_id


@pytest.fixture(autouse=True)
def nothing_is_left_alone(observer: Session) -> Iterator[None]:
    """See at the end that tasks and payloads belong together."""
    yield
    assert alone(observer) == ([], [])


def test_what_is_purged_takes_its_own_with_it(session: Session) -> None:
    gone, stays = one(session), one(session)
    session.complete(*session.lease(2))

    assert session.purge(gone) == [gone]

    assert ids_apart(session) == {stays}
    assert session.task(stays).payload == LARGE


@pytest.mark.parametrize("made", [True, False])
def test_days_that_are_over_take_theirs_with_them_in_bounded_steps(
    session: Session, clock: Clock, made: bool
) -> None:
    if not made:
        clock.advance(days=60)
    gone = [with_a_key(session, key=f"k{n}", max_attempts=2) for n in range(5)]
    session.fail(*session.lease(5))
    session.complete(*session.lease(5))
    clock.advance(days=5)
    stays = one(session)
    session.complete(session.lease_one())
    clock.advance(days=4)

    steps = 0
    while session.call(DropPastDays(2)):
        steps += 1

    assert steps > 2
    assert [session.find(id_) for id_ in gone] == [None] * 5
    assert session.value("select count(*) from wherry.attempt") == 0
    assert session.value("select count(*) from wherry.key") == 0
    assert ids_apart(session) == {stays}


def test_a_task_that_is_requeued_while_its_day_is_dropped_keeps_its_own(
    session: Session, other: Session, clock: Clock
) -> None:
    kept, gone = one(session), one(session)
    session.complete(*session.lease(2))
    clock.advance(days=9)
    other.begin()
    other.requeue(kept)

    while session.call(DropPastDays(1)):
        # What is locked is left; all else goes.
        pass
    other.commit()
    while session.call(DropPastDays(1)):
        pass

    assert session.find(gone) is None
    assert session.lease_one().payload == LARGE
    assert ids_apart(session) == {kept}


@pytest.mark.parametrize("key", [None, "k"])
def test_an_id_that_names_the_payload_of_another_task_is_refused(
    session: Session, key: str | None
) -> None:
    ids = tuple(session.call(DrawTaskIds(1)))
    theirs = EnqueueTasks((spec(payload=LARGE),), ids, new_token())
    session.call(theirs)
    session.complete(session.lease_one())
    ours = EnqueueTasks((spec(payload=LARGE | {"n": 2}, key=key),), ids, new_token())

    for command in (ours, ours.again()):
        with pytest.raises(psycopg.errors.UniqueViolation) as refused:
            session.call(command)
        assert is_taken_id(refused.value)

    assert session.task(ids[0]).payload == LARGE
    assert session.value("select count(*) from wherry.tasks") == 1
    assert session.value("select count(*) from wherry.key") == 0


async def test_an_app_whose_ids_were_drawn_twice_loses_no_payload(
    app: wherry.App, session: Session
) -> None:
    first = await app.aenqueue("t", LARGE)
    session.complete(session.lease_one())
    session.rows("select setval('wherry.task_id', %s, false)", first.id)
    async with wherry.App(app.dsn) as late:
        second = await late.aenqueue("t", LARGE | {"n": 2})

    assert second.id != first.id
    assert session.task(first.id).payload == LARGE
    assert session.task(second.id).payload == LARGE | {"n": 2}


@pytest.mark.parametrize("over", ["day", "purge"])
def test_a_small_task_of_the_same_id_does_not_take_it_along(
    session: Session, clock: Clock, over: str
) -> None:
    ids = tuple(session.call(DrawTaskIds(1)))
    session.call(EnqueueTasks((spec(),), ids, new_token()))
    session.complete(session.lease_one())
    clock.advance(days=5)
    session.call(EnqueueTasks((spec(payload=LARGE),), ids, new_token()))
    session.fail(session.lease_one(), verdict="fail")
    clock.advance(days=4)
    if over == "purge":
        session.rows("update wherry.finished set id = -id where payload is null")
        session.rows("update wherry.payload set task_id = -task_id")
        assert session.purge(*ids) == list(ids)
        ids = (-ids[0],)
    else:
        while session.call(DropPastDays(100)):
            pass

    assert session.value("select state from wherry.tasks") == "failed"
    assert session.task(ids[0]).payload == LARGE
