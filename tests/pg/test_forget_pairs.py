"""Queues and types that nobody uses any more make room for others."""

from __future__ import annotations

import pytest

from tests.pg.flow import counted, roll, there, totals
from tests.pg.support import Session
from wherry.commands.flow import ReadTotals
from wherry.commands.maintenance import DropPastDays, MakeDays
from wherry.testing import Clock


def names(session: Session) -> set[str]:
    return {str(name) for (name,) in session.rows("select queue from wherry.pair")}


def done(session: Session, queue: str) -> None:
    session.enqueue(queue=queue)
    session.complete(session.lease_one(queue=queue))


def pass_days(session: Session, clock: Clock, days: int) -> None:
    clock.advance(days=days)
    session.call(MakeDays())
    while session.call(DropPastDays()):
        pass
    roll(session)


def test_a_name_that_was_a_mistake_is_forgotten_when_no_hour_tells_of_it(
    session: Session, clock: Clock
) -> None:
    done(session, "mistake")
    roll(session)
    pass_days(session, clock, 40)
    # Until then its task was there.
    kept = names(session)
    pass_days(session, clock, 70)

    assert "mistake" in kept
    assert names(session) == {""}
    assert session.value("select count(*) from wherry.tally") == 0
    assert session.call(ReadTotals()).totals == ()
    done(session, "mistake")
    roll(session)
    assert totals(session, queue="mistake") == {"enqueued": 1, "succeeded": 1}
    assert counted(session) == there(session)


def test_a_name_that_is_used_now_and_then_stays_with_its_totals(
    session: Session, clock: Clock
) -> None:
    for _ in range(4):
        done(session, "rare")
        roll(session)
        pass_days(session, clock, 50)

    assert totals(session, queue="rare") == {"enqueued": 4, "succeeded": 4}


@pytest.mark.parametrize("state", ["ready", "delayed", "dead"])
def test_a_name_of_which_a_task_is_there_stays_however_old_it_is(
    session: Session, clock: Clock, state: str
) -> None:
    session.rows("update wherry.settings set keep_failed = interval '300 days'")
    session.call(MakeDays())
    delay = 86_400 * 300 if state == "delayed" else 0
    session.enqueue(queue="kept", max_attempts=1, delay=delay)
    if state == "dead":
        session.fail(session.lease_one(queue="kept"))
    roll(session)

    pass_days(session, clock, 70)

    assert "kept" in names(session)
    assert counted(session) == there(session) != {}


def test_a_forgotten_name_makes_room(session: Session, clock: Clock) -> None:
    session.rows(
        "insert into wherry.pair (queue, type, seen_at)"
        " select 'mistake-' || n, 't', wherry.now() from generate_series(1, 1000) as n"
    )
    done(session, "new")
    roll(session)
    assert "new" not in names(session)

    # A batch of them at each time that minutes are added to hours.
    pass_days(session, clock, 70)
    done(session, "new")
    roll(session)

    assert totals(session, queue="new") == {"enqueued": 1, "succeeded": 1}
