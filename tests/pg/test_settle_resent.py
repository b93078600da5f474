"""An enqueue sent again, in a database that has gone back in time: whose the ids are by now.

Ids are drawn a second time after an asynchronous failover. What is told to be stored has to be
stored, under an id of its own, however far the other task has come meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.pg.support import Session, spec
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks, new_token
from wherry.transport.faults import is_taken_id

Theirs = Callable[[Session, int], None]


def waits(session: Session, _id: int) -> None:
    """It is queued."""


def runs(session: Session, _id: int) -> None:
    session.lease_one()


def has_ended(session: Session, _id: int) -> None:
    session.complete(session.lease_one())


def waits_elsewhere(session: Session, id: int) -> None:
    session.rows("update wherry.live set queue = 'elsewhere' where id = %s", id)


HOWEVER_FAR = [waits, runs, has_ended, waits_elsewhere]


def drawn(session: Session, *, key: str | None = None) -> EnqueueTasks:
    """An enqueue with ids of its own, that has not reached the database."""
    return EnqueueTasks((spec(key=key),), tuple(session.call(DrawTaskIds(1))), new_token())


def lose_the_draw(session: Session, command: EnqueueTasks) -> None:
    assert command.ids
    session.rows("select setval('wherry.task_id', %s, false)", command.ids[0])


@pytest.mark.parametrize("theirs", HOWEVER_FAR)
@pytest.mark.parametrize("key", [None, "k"])
def test_what_is_sent_again_is_refused_where_others_have_its_id(
    session: Session, theirs: Theirs, key: str | None
) -> None:
    command = drawn(session, key=key)
    lose_the_draw(session, command)
    others = EnqueueTasks((spec(),), tuple(session.call(DrawTaskIds(1))), new_token())
    session.call(others)
    theirs(session, session.value("select id from wherry.live"))
    before = session.rows("select id, state, lease_token from wherry.tasks")

    with pytest.raises(psycopg.errors.UniqueViolation) as refused:
        session.call(command.again())

    assert is_taken_id(refused.value)
    assert others.ids == command.ids
    assert session.rows("select id, state, lease_token from wherry.tasks") == before
    assert session.value("select count(*) from wherry.key") == 0


@pytest.mark.parametrize("theirs", HOWEVER_FAR)
def test_a_task_of_plain_sql_or_of_a_transaction_is_that_of_others_too(
    session: Session, theirs: Theirs
) -> None:
    command = drawn(session)
    lose_the_draw(session, command)
    theirs(session, session.enqueue())

    with pytest.raises(psycopg.errors.UniqueViolation):
        session.call(command.again())


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("ours", [waits, runs, has_ended])
def test_what_had_arrived_is_known_again_however_far_it_has_come(
    session: Session, ours: Theirs, key: str | None
) -> None:
    command = drawn(session, key=key)
    session.call(command)
    assert command.ids
    ours(session, command.ids[0])
    before = session.rows("select id, state, lease_token from wherry.tasks")

    [answer] = session.call(command.again())

    assert (answer.id, answer.created) == (command.ids[0], True)
    assert session.rows("select id, state, lease_token from wherry.tasks") == before


def test_what_had_arrived_is_known_again_beside_one_of_others_with_its_id(
    session: Session,
) -> None:
    """As after a first sending with an id whose other task had ended by then."""
    command = drawn(session)
    lose_the_draw(session, command)
    session.enqueue()
    session.complete(session.lease_one())
    session.call(command)

    [answer] = session.call(command.again())

    assert (answer.id,) == command.ids
    assert session.value("select count(*) from wherry.live") == 1


def test_a_batch_is_refused_as_a_whole_where_others_have_one_of_its_ids(session: Session) -> None:
    ids = tuple(session.call(DrawTaskIds(3)))
    command = EnqueueTasks(tuple(spec(key=f"k{n}") for n in range(3)), ids, new_token())
    session.rows("select setval('wherry.task_id', %s)", ids[0])
    theirs = session.enqueue()

    with pytest.raises(psycopg.errors.UniqueViolation):
        session.call(command.again())

    assert theirs == ids[1]
    assert session.rows("select id from wherry.live") == [(theirs,)]


def test_a_key_is_given_to_no_task_whose_id_is_drawn_while_it_is_taken(session: Session) -> None:
    """Without ids of its own, as on a caller's connection: a sequence behind its tasks."""
    first = session.enqueue()
    session.rows("select setval('wherry.task_id', %s, false)", first)

    with pytest.raises(psycopg.errors.UniqueViolation) as refused:
        session.enqueue(key="k")

    assert is_taken_id(refused.value)
    assert session.value("select count(*) from wherry.key") == 0
