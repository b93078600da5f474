"""The doctor's look at schedules, each time at a database that is ill in one way."""

from __future__ import annotations

import pytest

from tests.doctor.conftest import Look
from tests.pg.schedules import NOON, StillClock, beat, declare, schedule
from tests.pg.support import Session
from wherry.commands.declaring import AddSchedule
from wherry.commands.schedules import PauseSchedule
from wherry.commands.workers import LeaveWorker
from wherry.doctor.finding import Verdict


@pytest.fixture
def clock(session: Session) -> StillClock:
    return StillClock(session, NOON)


def test_schedules_that_are_in_order_are_counted(look: Look, session: Session) -> None:
    assert look("schedules").seen == "there are none"
    declare(session, schedule("a"))
    session.call(AddSchedule(schedule("b")))

    assert (look("schedules").verdict, look("schedules").seen) == (Verdict.OK, "2 schedules")

    session.call(PauseSchedule("a"))
    assert (look("schedules").verdict, look("schedules").seen) == (Verdict.OK, "paused: a")


def test_a_schedule_that_nobody_settles_is_a_problem(
    look: Look, session: Session, clock: StillClock
) -> None:
    declare(session, schedule("a"))
    clock.advance(minutes=1)
    assert look("schedules").verdict is Verdict.OK
    clock.advance(minutes=1)

    found = look("schedules")

    assert found.verdict is Verdict.PROBLEM
    assert found.seen.startswith("schedule 'a' has been due for 80 s")
    assert "nobody settles it" in found.seen


def test_times_that_cannot_be_told_are_a_problem(look: Look, session: Session) -> None:
    declare(session, schedule("a"), schedule("b"))
    session.rows("update wherry.schedule set trouble = 'no such zone'")

    found = look("schedules")

    assert found.verdict is Verdict.PROBLEM
    assert found.seen == "the times of schedule 'a' cannot be told: no such zone; and 1 other"


def test_what_no_live_worker_declares_is_told(look: Look, session: Session) -> None:
    declare(session, schedule("a b; rm"))
    session.call(LeaveWorker(beat(session)))

    found = look("schedules")

    assert found.verdict is Verdict.WARNING
    assert found.seen.startswith("no live worker declares a b; rm")
    assert (found.advice or "").endswith("wherry cron delete -- 'a b; rm'")
