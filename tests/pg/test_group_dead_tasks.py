"""Dead tasks are grouped by what their errors have in common, and a group is a filter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.pg.support import Session
from wherry.commands.finding import CountTasks, GroupDeadTasks, ListTasks
from wherry.domain.failure import Failure
from wherry.domain.filter import DeadGroup, Filter
from wherry.domain.state import State
from wherry.testing import Clock


def dead(session: Session, message: str, *, error: str = "E", type: str = "t", **how: Any) -> int:
    id_ = session.enqueue(type, **how)
    lease = session.lease_one(queue=how.get("queue", "default"))
    session.fail(lease, verdict="fail", failure=Failure(error, message, ""))
    return id_


def groups(session: Session, **filter: Any) -> tuple[DeadGroup, ...]:
    return session.call(GroupDeadTasks(Filter(**filter))).groups


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no order 17", "no order 4711"),
        ("took 1.5 s of 30", "took 12.25 s of 30"),
        ("no user 'ann'", "no user 'bob smith'"),
        ('no key "a"', 'no key "b"'),
        ("to ann@example.org: refused", "to b.c+d@mail.example.com: refused"),
        ("connect 10.0.0.1:5432", "connect 192.168.7.20:6543"),
        ("id 6f1c0b52-8a3e-4c58-9b60-0d6a1f7a2c33", "id 00000000-0000-4000-8000-00000000000a"),
        ("at 0xdeadbeef", "at 0x7f3a"),
        ("sha a94a8fe5ccb19ba6", "sha 0beec7b5ea3f0fdb"),
        ("x" * 400 + "1", "x" * 400 + " and more"),
    ],
)
def test_what_differs_from_task_to_task_does_not_part_them(
    session: Session, one: str, other: str
) -> None:
    dead(session, one)
    newest = dead(session, other)

    [group] = groups(session)

    assert (group.tasks, group.sample_id) == (2, newest)
    assert group.sample_error.startswith(f"E: {other[:300]}")


def test_type_error_and_words_part_them(session: Session) -> None:
    dead(session, "no order 1")
    dead(session, "no order 1", type="other")
    dead(session, "no order 1", error="KeyError")
    dead(session, "no customer 1")

    assert [group.tasks for group in groups(session)] == [1, 1, 1, 1]
    assert len({group.fingerprint for group in groups(session)}) == 4


def test_a_group_tells_how_many_since_when_and_where(session: Session, clock: Clock) -> None:
    first = dead(session, "no order 1", queue="b")
    clock.advance(hours=1)
    last = dead(session, "no order 2", queue="a")
    dead(session, "other")
    session.enqueue()

    [group, single] = groups(session)

    assert (group.tasks, group.type, group.queues) == (2, "t", ("a", "b"))
    assert group.first_at == session.task(first).finished_at
    assert group.last_at == session.task(last).finished_at
    assert single.tasks == 1


def test_a_fingerprint_chooses_its_tasks_and_no_other(session: Session) -> None:
    ids = [dead(session, f"no order {n}") for n in range(3)]
    dead(session, "other")
    session.enqueue()
    [group, _] = groups(session)

    for states in (frozenset(State), frozenset({State.DEAD, State.FAILED})):
        wanted = Filter(fingerprint=group.fingerprint, states=states)
        page = session.call(ListTasks(wanted))
        assert [task.id for task in page.tasks] == ids[::-1]
        assert session.call(CountTasks(wanted)).tasks == 3
        back = session.call(ListTasks(wanted, before=ids[0]))
        assert [task.id for task in back.tasks] == ids[:0:-1]
    [again] = groups(session, fingerprint=group.fingerprint)
    # The time that is parted begins with the first of those that were asked for.
    assert replace(again, spread=()) == replace(group, spread=())


def test_a_dead_task_without_an_error_has_a_group_too(session: Session, clock: Clock) -> None:
    session.enqueue(max_attempts=1)
    session.lease_one()
    clock.advance(minutes=6)
    session.reap()

    [group] = groups(session)

    assert group.tasks == 1
    assert session.call(CountTasks(Filter(fingerprint=group.fingerprint))).tasks == 1


def test_how_many_ended_when_is_told_in_parts_of_the_time(session: Session, clock: Clock) -> None:
    assert session.call(GroupDeadTasks(Filter())).since is None
    dead(session, "early")
    # In the middle of a part, so that both of them are in it.
    clock.advance(hours=12.5)
    dead(session, "late")
    dead(session, "late")
    clock.advance(hours=11.5)
    dead(session, "late")

    found = session.call(GroupDeadTasks(Filter()))

    late, early = found.groups
    assert found.since == early.first_at
    assert early.spread == (1, *([0] * 23))
    assert (len(late.spread), sum(late.spread), late.spread[-1]) == (24, late.tasks, 1)
    assert late.spread[12] == 2


def test_no_more_than_the_newest_are_looked_at(session: Session) -> None:
    dead(session, "old")
    for n in range(3):
        dead(session, f"new {n}")

    few = session.call(GroupDeadTasks(Filter(), most=3))

    assert ([group.tasks for group in few.groups], few.capped) == ([3], True)
    everything = session.call(GroupDeadTasks(Filter(), groups=1))
    assert (len(everything.groups), everything.capped) == (1, False)
    assert session.call(GroupDeadTasks(Filter(states=frozenset({State.QUEUED})))).groups == ()
