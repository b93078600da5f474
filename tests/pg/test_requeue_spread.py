"""What is requeued at a rate becomes ready one after the other, the oldest first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.pg.support import Session, spec
from wherry.commands.tasks import RequeueTasks
from wherry.domain.task import RequeueAnswer
from wherry.testing import Clock


def ended(session: Session, n: int, **options: Any) -> list[int]:
    ids = [made.id for made in session.enqueue_many(*[spec(**options)] * n)]
    session.fail(*session.lease(n), verdict="fail")
    return ids


def waits(session: Session, ids: list[int]) -> list[float]:
    """How long each task waits, in seconds."""
    now = session.value("select wherry.now()")
    return [round((session.task(id_).run_after - now).total_seconds(), 1) for id_ in ids]


def test_at_a_rate_each_waits_longer_than_the_one_before(session: Session, clock: Clock) -> None:
    ids = ended(session, 5)

    answers = session.call(RequeueTasks(tuple(ids[::-1]), per_second=0.1))

    assert {each.answer for each in answers} == {RequeueAnswer.QUEUED}
    assert waits(session, ids) == pytest.approx([0, 10, 20, 30, 40], abs=5)
    assert [lease.id for lease in session.lease(9)] == ids[:1]
    clock.advance(seconds=25)
    session.promote()
    assert sorted(lease.id for lease in session.lease(9)) == ids[1:3]


def test_the_first_waits_as_long_as_is_said(session: Session) -> None:
    ids = ended(session, 2)

    session.call(RequeueTasks(tuple(ids), delay_seconds=600))

    assert waits(session, ids) == pytest.approx([600, 600], abs=60)
    assert session.lease() == []


def test_what_a_task_waits_does_not_count_for_its_ttl(session: Session) -> None:
    [id_] = ended(session, 1, ttl=60)

    session.call(RequeueTasks((id_,), delay_seconds=600))

    [[run_after, discard_at]] = session.rows("select run_after, discard_at from wherry.live")
    assert discard_at - run_after == timedelta(seconds=60)


def test_what_waits_is_counted_as_delayed(session: Session) -> None:
    ids = ended(session, 3)
    session.rows("delete from wherry.flow")

    session.call(RequeueTasks(tuple(ids), per_second=0.1))

    counted = dict(session.rows("select kind, sum(n) from wherry.flow group by kind"))
    assert counted == {"requeued": 3, "left_failed": 3, "delayed": 2}
