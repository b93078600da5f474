"""A copy has the options of its original and none of its life; with a purge one of them is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.pg.flow import counted, roll, there, totals
from tests.pg.large import LARGE, alone, ids_apart
from tests.pg.support import OpenSession, Session
from wherry.commands.audit import Actor, audited
from wherry.commands.copying import CopyTask
from wherry.commands.tasks import DrawTaskIds, new_token
from wherry.domain.retry import Fixed
from wherry.domain.state import State
from wherry.errors import Busy, InvalidOption, NotFinal, NotFound

OPTIONS: dict[str, Any] = {
    "queue": "q",
    "priority": 7,
    "max_attempts": 3,
    "retry": Fixed(delay=2.5),
    "timeout": 90,
    "ttl": 3600.5,
    "tags": ["a", 'b"{}\\,'],
    "headers": {"h": "é\n"},
}
# All that a copy has of its original, as it is stored.
TAKEN = (
    "type, payload::text, priority, max_attempts, retry::text, timeout_seconds, ttl_seconds, tags,"
    " headers::text"
)
NOBODY = 10**9


def waits(_session: Session) -> None:
    """It is queued."""


def runs(session: Session) -> None:
    session.lease_one(queue="q")


def died(session: Session) -> None:
    for _ in range(3):
        session.fail(session.lease_one(queue="q"))
        session.promote()


def succeeded(session: Session) -> None:
    session.complete(session.lease_one(queue="q"), result="1")


def copied(session: Session, id: int, **said: Any) -> int:
    return session.call(CopyTask(id=id, **said)).id


def drawn(session: Session, id: int, **said: Any) -> CopyTask:
    """A copy whose id is known before it is sent."""
    ids = tuple(session.call(DrawTaskIds(1)))
    return CopyTask(id=id, ids=ids, token=new_token(), **said)


@pytest.mark.parametrize("came_so_far", [waits, runs, died, succeeded])
def test_a_copy_has_all_options_but_the_key_and_begins_anew(
    session: Session, came_so_far: Callable[[Session], None]
) -> None:
    id = session.enqueue("kind", {"n": 1}, key="k", **OPTIONS)
    came_so_far(session)
    table = "live" if came_so_far in (waits, runs) else "finished"
    before = session.task(id)

    answer = session.call(CopyTask(id=id))

    task = session.task(answer.id)
    assert (answer.created, answer.payload_matches) == (True, None)
    assert answer.id != id
    [original] = session.rows(f"select {TAKEN} from wherry.{table} where id = %s", id)
    assert session.rows(f"select {TAKEN} from wherry.live where id = %s", answer.id) == [original]
    assert (task.queue, task.key, task.state, task.attempts) == ("q", None, State.QUEUED, 0)
    assert task.history == ()
    # Its ttl counts from now.
    assert session.value(
        "select discard_at = created_at + interval '3600.5 s' from wherry.live where id = %s",
        answer.id,
    )
    assert session.task(id) == before


def test_what_is_said_takes_the_place_of_its_own(session: Session) -> None:
    id = session.enqueue("kind", {"n": 1}, **OPTIONS)

    task = session.task(copied(session, id, queue="other", payload='{"n":2}', delay_seconds=60.0))

    assert (task.queue, task.payload, task.priority) == ("other", {"n": 2}, 7)
    assert (task.run_after - task.created_at).total_seconds() == 60
    assert session.value("select state from wherry.live where id = %s", task.id) == "delayed"


@pytest.mark.parametrize("n", [1, 3_000])
def test_a_payload_that_nobody_changes_is_the_same_text(session: Session, n: int) -> None:
    id = session.enqueue()
    spaces = " " * n
    stored = f'{{"n":9007199254740993,"sum": 1.10,{spaces}"a":"\\u00e9 ☃","tiny":1e-400}}'
    session.rows("update wherry.live set payload = %s where id = %s", stored, id)

    copy = copied(session, id)

    assert session.task(copy).payload_text == stored


def test_a_large_payload_is_the_copys_own(session: Session) -> None:
    id = session.enqueue("t", LARGE)
    session.complete(session.lease_one())

    copy = copied(session, id)
    last = copied(session, id, purge=True)
    edited = copied(session, copy, payload='{"n":1}')

    assert ids_apart(session) == {copy, last}
    assert session.task(copy).payload == session.task(last).payload == LARGE
    assert session.task(edited).payload == {"n": 1}
    assert session.task(copied(session, edited, payload=json.dumps(LARGE))).payload == LARGE
    assert alone(session) == ([], [])


def test_with_a_purge_only_the_copy_is_left(session: Session) -> None:
    id = session.enqueue("kind", key="k", **OPTIONS)
    died(session)

    copy = copied(session, id, purge=True)

    assert session.find(id) is None
    assert session.value("select count(*) from wherry.attempt") == 0
    assert session.value("select count(*) from wherry.key") == 0
    assert session.rows("select id from wherry.tasks") == [(copy,)]


@pytest.mark.parametrize("came_so_far", [waits, runs])
def test_what_has_not_ended_is_not_taken_away(
    session: Session, came_so_far: Callable[[Session], None]
) -> None:
    id = session.enqueue(queue="q")
    came_so_far(session)
    before = session.dump()

    with pytest.raises(NotFinal, match=f"task {id} is (queued|leased)"):
        copied(session, id, purge=True)

    assert session.dump() == before


def test_of_two_copies_with_a_purge_one_is_made(
    session: Session, open_session: OpenSession
) -> None:
    id = session.enqueue()
    session.complete(session.lease_one())
    session.begin()
    copied(session, id, purge=True)

    with pytest.raises(Busy):
        copied(open_session(), id, purge=True)
    session.commit()
    with pytest.raises(NotFound):
        copied(session, id, purge=True)

    assert session.value("select count(*) from wherry.live") == 1


def test_who_purges_between_the_look_and_the_purge_lets_nothing_be_stored(
    session: Session, open_session: OpenSession
) -> None:
    id = session.enqueue()
    session.complete(session.lease_one())
    other = open_session()

    with pytest.raises(NotFound), session.connection.transaction():
        session.call_around(
            CopyTask(id=id, purge=True), before="tasks/purge_tasks", act=lambda: other.purge(id)
        )

    assert session.value("select count(*) from wherry.tasks") == 0


def test_an_unknown_task_is_not_copied(session: Session) -> None:
    with pytest.raises(NotFound, match=str(NOBODY)):
        copied(session, NOBODY)
    with pytest.raises(NotFound):
        session.call(drawn(session, NOBODY, purge=True).again())

    assert session.value("select count(*) from wherry.live") == 0


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize("payload", [None, '{"n":2}'])
def test_what_is_sent_again_is_one_copy(session: Session, purge: bool, payload: str | None) -> None:
    id = session.enqueue()
    session.complete(session.lease_one())
    command = drawn(session, id, purge=purge, payload=payload)
    first = session.call(command)

    again = session.call(command.again())

    assert again.id == first.id
    assert session.value("select count(*) from wherry.live") == 1
    assert (session.find(id) is None) is purge


def test_what_is_sent_again_after_the_copy_has_ended_is_not_stored_again(
    session: Session,
) -> None:
    id = session.enqueue()
    session.complete(session.lease_one())
    for command in (drawn(session, id), drawn(session, id, purge=True)):
        copy = session.call(command).id
        session.complete(session.lease_one())

        assert session.call(command.again()).id == copy

    assert session.value("select count(*) from wherry.live") == 0


def test_a_copy_that_did_not_arrive_is_made_when_it_is_sent_again(session: Session) -> None:
    id = session.enqueue()
    session.complete(session.lease_one())

    copy = session.call(drawn(session, id, purge=True).again()).id

    assert session.rows("select id from wherry.tasks") == [(copy,)]


def test_copies_and_purges_are_counted(session: Session) -> None:
    id = session.enqueue()
    session.complete(session.lease_one())
    copied(session, id)
    copied(session, id, delay_seconds=60.0)
    copied(session, id, queue="other", purge=True)
    roll(session)

    assert counted(session) == there(session)
    assert totals(session) == {"enqueued": 3, "succeeded": 1}
    assert totals(session, "other") == {"enqueued": 1}


def test_the_audit_says_what_became_of_what(session: Session) -> None:
    id = session.enqueue()
    session.complete(session.lease_one())
    actor = Actor("ada", "10.0.0.7")
    command = CopyTask(id=id, queue="q", payload="{}", purge=True, reason="ticket 7")

    copy = session.call(audited(replace(command, purge=False), actor)).id
    last = session.call(audited(command, actor)).id
    plain = session.call(audited(CopyTask(id=copy), actor)).id

    rows = session.rows("select actor, action, target, count, reason from wherry.audit order by id")
    said = {"ids": [id], "queue": "q", "edited": True}
    assert rows == [
        ("ada", "copy_task", {**said, "stored": copy}, 1, "ticket 7"),
        ("ada", "copy_task", {**said, "purged": True, "stored": last}, 1, "ticket 7"),
        ("ada", "copy_task", {"ids": [copy], "stored": plain}, 1, None),
    ]


def test_what_plain_sql_stored_unreadably_is_told_and_not_copied(session: Session) -> None:
    id = session.enqueue()
    session.rows("update wherry.live set headers = %s where id = %s", "[1]", id)

    with pytest.raises(InvalidOption, match="headers is no JSON object but an array"):
        copied(session, id)


def test_a_copy_is_told_from_what_others_store(session: Session) -> None:
    id = session.enqueue()
    command = drawn(session, id)
    assert command.ids
    copy = session.call(command).id

    assert copy == command.ids[0]
    assert session.value("select token from wherry.live where id = %s", copy) == command.token
