"""What an enqueue stores, through the library and through plain SQL alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.pg.doors import DOORS, Door, library, plain_sql
from tests.pg.support import Session, spec
from wherry.commands.parts import EnqueueInParts
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks
from wherry.domain.retry import FullJitter
from wherry.domain.specs import Alike, Specs
from wherry.domain.state import State
from wherry.domain.task import Enqueued
from wherry.testing import Clock

# What two stored tasks may differ in.
OWN = {"id", "position", "created_at", "run_after", "discard_at"}


@pytest.fixture(params=DOORS, ids=lambda door: str(door.__name__))
def door(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_task_with_nothing_but_a_type_has_the_documented_defaults(
    session: Session, door: Door
) -> None:
    answer = door(session, "mail")

    assert (answer.created, answer.payload_matches) == (True, None)
    task = session.task(answer.id)
    assert (task.queue, task.priority, task.max_attempts, task.payload) == ("default", 0, 20, {})
    assert (task.key, task.tags, task.headers, task.retry) == (None, (), {}, None)
    assert task.run_after == task.created_at
    assert session.lease_one().id == answer.id


def test_every_option_is_stored_the_same_by_both_doors(session: Session, clock: Clock) -> None:
    options: dict[str, Any] = {
        "queue": "a/b:c d",
        "priority": -7,
        "max_attempts": 3,
        "key_ttl": timedelta(hours=1),
        "timeout": timedelta(seconds=2.5),
        "ttl": timedelta(days=2),
        "retry": FullJitter(base=2, cap=60),
        "tags": ["x", "y", "x"],
        "headers": {"trace": "00-1", "empty": ""},
        "delay": timedelta(minutes=1),
    }
    payload = {"text": "\u00e9\u4e16\U0001f600", "nested": [{"a": [1, 2.5, None, True]}]}

    for door in DOORS:
        door(session, "mail", payload, key=door.__name__, **options)

    one, two = session.dump("live")["live"]
    for row in (one, two):
        waits = [datetime.fromisoformat(row[n]) for n in ("created_at", "run_after", "discard_at")]
        assert waits[1] - waits[0] == timedelta(minutes=1)
        assert waits[2] - waits[0] == timedelta(days=2)
    differ = {name for name in one if one[name] != two[name]}
    assert differ <= OWN | {"key"}
    assert one["tags"] == ["x", "y"]
    assert one["state"] == "delayed"


def test_a_moment_is_stored_the_same_by_both_doors(session: Session) -> None:
    moment = datetime(2040, 2, 29, 12, 30, 0, 123456, tzinfo=UTC)

    for door in DOORS:
        assert session.task(door(session, run_after=moment).id).run_after == moment


@pytest.mark.parametrize("delay", [0, timedelta(days=-400)])
def test_what_is_due_is_ready_at_once(
    session: Session, clock: Clock, door: Door, delay: Any
) -> None:
    options = {"run_after": clock.now() + delay} if delay else {"delay": 0}

    door(session, **options)

    assert session.value("select state from wherry.live") == "ready"


def test_the_ids_of_both_doors_come_from_one_sequence(session: Session) -> None:
    ids = [door(session).id for door in DOORS * 3]

    assert len(set(ids)) == 6
    assert ids == sorted(ids)


def test_the_library_and_plain_sql_agree_on_what_the_same_payload_is(session: Session) -> None:
    first = library(session, "t", {"b": [1, {"c": 2}], "a": "\u00e9"}, key="k")

    again = plain_sql(session, "t", {"a": "\u00e9", "b": [1, {"c": 2}]}, key="k")

    assert (again.id, again.created, again.payload_matches) == (first.id, False, True)
    assert plain_sql(session, "t", {"a": "e"}, key="k").payload_matches is False
    assert (
        plain_sql(session, "u", {"b": [1, {"c": 2}], "a": "\u00e9"}, key="k").payload_matches
        is False
    )


def test_a_trigger_enqueues_in_the_statement_that_fired_it(session: Session) -> None:
    session.rows("create table orders (id int)")
    session.rows("""
        create function enqueue_mail() returns trigger language plpgsql as $$
        begin
            perform wherry.enqueue('mail', 'send', jsonb_build_object('order', new.id),
                                   key => 'order-' || new.id);
            return new;
        end $$
    """)
    session.rows(
        "create trigger mail after insert on orders for each row execute function enqueue_mail()"
    )
    session.begin()
    session.rows("insert into orders values (1)")
    session.rollback()

    session.rows("insert into orders select n from generate_series(1, 3) as n")
    session.rows("insert into orders values (2)")

    leases = session.lease(9, queue="mail")
    assert [(lease.payload, lease.key) for lease in leases] == [
        ({"order": n}, f"order-{n}") for n in (1, 2, 3)
    ]


def test_nothing_of_a_rolled_back_enqueue_is_ever_seen(
    session: Session, other: Session, door: Door
) -> None:
    before = session.dump()
    other.begin()
    answer = door(other, key="k")
    assert other.task(answer.id).state is State.QUEUED
    assert (session.find(answer.id), session.lease()) == (None, [])

    other.rollback()

    assert session.dump() == before


def test_a_savepoint_takes_its_enqueue_with_it(session: Session, door: Door) -> None:
    session.begin()
    kept = door(session, key="a").id
    session.rows("savepoint s")
    door(session, key="b")
    session.rows("rollback to savepoint s")
    again = door(session, key="b")
    session.commit()

    assert again.created
    assert [lease.id for lease in session.lease(9)] == [kept, again.id]


def test_many_tasks_come_back_in_their_order(session: Session) -> None:
    answers = session.enqueue_many(*(spec(payload={"n": n}) for n in range(1000)))

    assert [session.task(answers[n].id).payload["n"] for n in (0, 1, 500, 999)] == [0, 1, 500, 999]
    assert [answer.id for answer in answers] == sorted(answer.id for answer in answers)
    assert [lease.payload["n"] for lease in session.lease(1000)] == list(range(1000))


def test_many_tasks_are_stored_in_their_order_whatever_keys_they_have(session: Session) -> None:
    keys = [None, "z", "a", None, "m", "b", None, "y"]

    session.enqueue_many(*(spec(payload={"n": n}, key=key) for n, key in enumerate(keys)))

    assert [lease.payload["n"] for lease in session.lease(9)] == list(range(8))


def test_many_are_all_or_none(session: Session, clock: Clock) -> None:
    """IDM-08."""
    # A second line of defence refuses it in the database: nothing of the call is stored.
    bad = spec()._replace(priority=1000)
    before = session.dump()

    with pytest.raises(psycopg.errors.CheckViolation):
        session.enqueue_many(spec(key="a"), bad, spec(key="b"))

    assert session.dump() == before


@pytest.mark.parametrize("are_drawn_ahead", [True, False])
def test_many_without_keys_keep_their_order_and_what_is_said_of_each(
    session: Session, are_drawn_ahead: bool
) -> None:
    payloads: list[Any] = [{"n": 0}, {"n": [[1], {"x": None}]}, {}, {"a": "ü\U0001f600"}, {}, {}]
    options: list[dict[str, Any]] = [
        {},
        {},
        {"priority": 1},
        {"tags": ["x"]},
        {},
        {"queue": "q2", "delay": 5.0},
    ]
    specs = tuple(spec("t", p, **o) for p, o in zip(payloads, options, strict=True))
    drawn = tuple(session.call(DrawTaskIds(6))[::-1]) if are_drawn_ahead else None

    answers = session.call(EnqueueTasks(specs, drawn))

    ids = [answer.id for answer in answers]
    assert answers == [Enqueued(id_, True, None) for id_ in drawn or sorted(ids)]
    placed = session.rows("select id from wherry.live order by position")
    assert [id_ for (id_,) in placed] == ids
    tasks = [session.task(id_) for id_ in ids]
    assert [task.payload for task in tasks] == payloads
    assert [task.priority for task in tasks] == [0, 0, 1, 0, 0, 0]
    assert [tuple(task.tags) for task in tasks] == [(), (), (), ("x",), (), ()]
    assert [task.queue for task in tasks] == ["default"] * 5 + ["q2"]


def test_every_option_is_stored_the_same_alone_among_many_in_parts_and_beside_a_key(
    session: Session, clock: Clock
) -> None:
    told = spec(
        "mail",
        {"text": "\u00e9\u4e16\U0001f600", "none": None},
        queue="a/b:c d",
        priority=-7,
        max_attempts=3,
        timeout=timedelta(seconds=2.5),
        ttl=timedelta(days=2),
        retry=FullJitter(base=2, cap=60),
        tags=["x", 'a "b", {c}', "back\\slash", "NULL"],
        headers={"trace": "00-1", "empty": ""},
        delay=timedelta(minutes=1),
    )
    timed = spec(run_after=datetime(2040, 2, 29, 12, 30, 0, 123456, tzinfo=UTC))
    for one in (told, timed):
        session.enqueue_many(one)
        session.enqueue_many(one, one)
        session.enqueue_many(one, spec(key="k", delay=1))
        alike = Alike(one._replace(payload=""), [one.payload] * 2)
        ids = tuple(session.call(DrawTaskIds(2)))
        session.call(EnqueueInParts(Specs(2, lambda *_, alike=alike: [alike]), ids, token=0))

    rows = [row for row in session.dump("live")["live"] if row["key"] is None]
    rows.sort(key=lambda row: row["id"])
    assert len(rows) == 12
    for same in (rows[:6], rows[6:]):
        assert len({str({**row, **dict.fromkeys(OWN)}) for row in same}) == 1
    for row in rows[:6]:
        waits = [datetime.fromisoformat(row[n]) for n in ("created_at", "run_after", "discard_at")]
        assert waits[1] - waits[0] == timedelta(minutes=1)
        assert waits[2] - waits[0] == timedelta(days=2)
    assert rows[0]["tags"] == ["x", 'a "b", {c}', "back\\slash", "NULL"]
    assert {datetime.fromisoformat(row["run_after"]) for row in rows[6:]} == {timed.run_after}


def test_none_at_all_are_no_trouble(session: Session) -> None:
    assert session.enqueue_many() == []


@pytest.mark.parametrize("resend", ["before it ran", "while it runs", "after it ended"])
@pytest.mark.parametrize("keys", [(None,), (None, None), ("k", None)], ids=str)
def test_an_enqueue_sent_again_with_its_ids_is_the_same_tasks(
    session: Session, resend: str, keys: tuple[str | None, ...]
) -> None:
    """IDM-12: Ids drawn ahead make a second sending the same tasks."""
    ids = tuple(session.call(DrawTaskIds(len(keys))))
    command = EnqueueTasks(tuple(spec(key=key) for key in keys), ids=ids)
    first = session.call(command)
    if resend != "before it ran":
        leases = session.lease(len(keys))
        if resend == "after it ended":
            session.complete(*leases)
    before = session.dump("live", "finished")

    again = session.call(command.again())

    assert again == first
    assert [answer.id for answer in again] == list(ids)
    assert session.dump("live", "finished") == before


def test_an_enqueue_sent_again_whose_first_sending_was_rolled_back_is_stored_once(
    session: Session,
) -> None:
    ids = tuple(session.call(DrawTaskIds(2)))
    command = EnqueueTasks((spec(key="k"), spec()), ids=ids)
    session.begin()
    session.call(command)
    session.rollback()

    answers = session.call(command.again())

    assert [(answer.id, answer.created) for answer in answers] == [(id_, True) for id_ in ids]
    assert session.value("select count(*) from wherry.live") == 2


def test_an_enqueue_sent_again_after_its_task_was_canceled_and_requeued_is_that_task(
    session: Session,
) -> None:
    ids = tuple(session.call(DrawTaskIds(1)))
    command = EnqueueTasks((spec(),), ids=ids)
    session.call(command)
    session.cancel(*ids)
    assert [a.id for a in session.call(command.again())] == list(ids)
    assert session.task(ids[0]).state is State.CANCELED
    session.requeue(*ids)

    session.call(command.again())

    assert session.value("select count(*) from wherry.live") == 1
    assert session.lease_one().token == 1


def test_a_takeover_sent_again_is_the_same_task(session: Session, clock: Clock) -> None:
    old = session.enqueue(key="k", key_ttl=0)
    session.cancel(old)
    ids = tuple(session.call(DrawTaskIds(1)))
    command = EnqueueTasks((spec(key="k"),), ids=ids)
    first = session.call(command)

    again = session.call(command.again())

    assert again == first
    assert again[0].created
    assert session.value("select count(*) from wherry.live") == 1


def test_the_same_key_twice_in_a_call_sent_again_is_answered_as_before(session: Session) -> None:
    ids = tuple(session.call(DrawTaskIds(2)))
    command = EnqueueTasks((spec(key="k"), spec(key="k")), ids=ids)

    assert session.call(command.again()) == session.call(command.again())

    assert session.value("select count(*) from wherry.live") == 1


def test_drawn_ids_are_never_drawn_again(session: Session) -> None:
    ids = session.call(DrawTaskIds(100)) + session.call(DrawTaskIds(100))
    ids += [session.enqueue() for _ in range(10)]

    assert len(set(ids)) == 210
