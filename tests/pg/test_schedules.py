"""What people do with schedules by hand: run, pause, resume and delete them, and look at them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tests.pg.schedules import (
    NOON,
    StillClock,
    beat,
    declare,
    outcomes,
    planned_of,
    schedule,
    seen,
    settle,
    ticks,
)
from tests.pg.support import OpenSession, Session, result_of
from wherry.commands.audit import Actor, audited
from wherry.commands.base import Command
from wherry.commands.declaring import AddSchedule
from wherry.commands.schedules import (
    DeleteSchedule,
    ListSchedules,
    ListTicks,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
)
from wherry.commands.scheduling import SettleSchedules
from wherry.commands.tasks import DrawTaskIds, new_token
from wherry.commands.workers import LeaveWorker
from wherry.errors import NotFound


@pytest.fixture
def clock(session: Session) -> StillClock:
    return StillClock(session, NOON)


def test_no_time_of_a_pause_brings_a_task_nor_is_made_up_for(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule(missed="all"))
    clock.advance(minutes=1)
    settle(session)
    assert session.call(PauseSchedule("s", "ann", "a flood")) is True
    clock.advance(minutes=5)

    assert settle(session)[0].next_in is None
    assert session.call(ResumeSchedule("s")) is True
    settle(session)
    clock.advance(minutes=1)
    settle(session)

    assert outcomes(session) == [("fired", 1), ("paused", 5), ("fired", 1)]
    told = seen(session)
    assert (told.fired, told.paused_ticks, told.missed_ticks) == (2, 5, 0)


def test_a_pause_says_who_and_why_and_the_first_words_stay(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule())
    session.call(PauseSchedule("s", "ann", "first"))

    assert session.call(PauseSchedule("s", "bob", "second")) is False

    told = seen(session)
    assert (told.paused_by, told.pause_reason, told.next_at) == ("ann", "first", None)
    assert session.call(ResumeSchedule("s")) is True
    assert session.call(ResumeSchedule("s")) is False
    told = seen(session)
    assert (told.paused_by, told.pause_reason, told.paused_at) == (None, None, None)
    assert told.next_at is not None


def test_a_deploy_ends_no_pause(session: Session, clock: StillClock) -> None:
    declare(session, schedule())
    session.call(PauseSchedule("s"))
    session.call(LeaveWorker(beat(session)))

    declare(session, schedule(), n=2)
    clock.advance(minutes=2)

    assert settle(session)[0].next_in is None


def test_a_run_by_hand_is_no_tick(session: Session, clock: StillClock) -> None:
    declare(session, schedule(payload={"a": 1}))
    before = seen(session)
    session.call(PauseSchedule("s"))

    stored = session.call(RunSchedule(name="s", reason="to see"))
    again = session.call(RunSchedule(name="s"))

    task = session.task(stored.id)
    assert (task.payload, task.headers) == ({"a": 1}, {"wherry-schedule": "s"})
    assert [(tick.outcome, tick.task_id, tick.reason) for tick in ticks(session)] == [
        ("by_hand", stored.id, "to see"),
        ("by_hand", again.id, None),
    ]
    session.call(ResumeSchedule("s"))
    told = seen(session)
    assert (told.by_hand_runs, told.fired, told.next_at) == (2, 0, before.next_at)


def test_a_run_whose_answer_was_lost_is_one_run(session: Session) -> None:
    declare(session, schedule())
    ids = tuple(session.call(DrawTaskIds(1)))
    run = RunSchedule(name="s", ids=ids, token=new_token())

    first = session.call(run)
    second = session.call(run.again())

    assert first.id == second.id
    assert len(ticks(session)) == 1
    assert seen(session).by_hand_runs == 1
    assert session.value("select count(*) from wherry.live") == 1


def test_what_was_run_by_hand_counts_as_running(session: Session, clock: StillClock) -> None:
    declare(session, schedule(overlap="skip"))
    session.call(RunSchedule(name="s"))
    session.call(RunSchedule(name="s"))
    clock.advance(minutes=1)
    settle(session)
    session.complete(session.lease_one())
    clock.advance(minutes=1)
    settle(session)
    session.complete(session.lease_one())
    clock.advance(minutes=1)

    settle(session)

    told = seen(session)
    assert (told.overlapped, told.fired) == (2, 1)


def test_what_a_live_worker_declares_is_not_deleted(session: Session, clock: StillClock) -> None:
    declare(session, schedule())
    clock.advance(minutes=1)
    settle(session)

    assert session.call(DeleteSchedule("s")) is False
    assert seen(session).fired == 1

    session.call(LeaveWorker(beat(session)))
    assert session.call(DeleteSchedule("s")) is True
    assert session.call(ListSchedules()) == []
    assert session.dump("tick") == {"tick": []}
    assert session.value("select count(*) from wherry.live") == 1


def test_what_was_made_by_hand_is_deleted_by_hand(session: Session) -> None:
    session.call(AddSchedule(schedule()))
    declare(session, schedule())

    assert session.call(DeleteSchedule("s")) is True


@pytest.mark.parametrize(
    "command",
    [
        PauseSchedule("none"),
        ResumeSchedule("none"),
        DeleteSchedule("none"),
        RunSchedule(name="none"),
        ListTicks(name="none"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_an_unknown_name_is_said(session: Session, command: Command[Any]) -> None:
    declare(session, schedule())

    with pytest.raises(NotFound, match="a schedule called 'none' is not in the database"):
        session.call(command)


@pytest.mark.parametrize(
    ("command", "count", "target"),
    [
        (PauseSchedule("s", "ann", "why"), 1, {"schedule": "s"}),
        (ResumeSchedule("s", "why"), 0, {"schedule": "s"}),
        (DeleteSchedule("s", "why"), 0, {"schedule": "s"}),
        (AddSchedule(schedule("t"), "why"), 1, {"schedule": "t"}),
        (RunSchedule(name="s", reason="why"), 1, {"schedule": "s", "stored": 1}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_changes_by_hand_are_in_the_audit(
    session: Session, command: Command[Any], count: int, target: dict[str, Any]
) -> None:
    declare(session, schedule())

    session.call(audited(command, Actor("ann")))

    [row] = session.rows("select actor, target, count, reason from wherry.audit")
    assert row == ("ann", target, count, "why")


def test_schedules_are_listed_by_name_with_who_declares_them(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule("b"), schedule("a"), n=1)
    declare(session, schedule("a"), n=2)
    beat(session, 2, seconds=10)
    session.call(AddSchedule(schedule("c", cron="0 3 * * *", tz="Europe/Berlin")))

    def told() -> list[tuple[str, int, bool]]:
        return [
            (each.name, each.declared_by, each.next_at is not None)
            for each in session.call(ListSchedules())
        ]

    assert told() == [("a", 2, True), ("b", 1, True), ("c", 0, True)]
    clock.advance(seconds=20)
    assert told() == [("a", 1, True), ("b", 1, True), ("c", 0, True)]
    session.call(LeaveWorker(beat(session, 1)))
    assert told() == [("a", 0, False), ("b", 0, False), ("c", 0, True)]
    local = seen(session, "c").next_local
    assert local is not None
    assert (local.hour, str(local.tzinfo)) == (3, "Europe/Berlin")


def test_ticks_are_listed_page_by_page_with_the_states_of_their_tasks(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule(missed="all"))
    clock.advance(minutes=5)
    settle(session)
    session.complete(session.lease_one())
    session.lease_one()

    first = session.call(ListTicks(name="s", limit=3))
    rest = session.call(ListTicks(name="s", limit=3, before=first[-1].planned_at))

    assert [tick.state for tick in first] == ["queued"] * 3
    assert [tick.state for tick in rest] == ["leased", "succeeded"]
    assert sorted(tick.planned_at for tick in first + rest) == planned_of(session)
    assert session.call(ListTicks(name="s", before=rest[-1].planned_at)) == []


def test_a_schedule_that_is_deleted_while_it_fires_leaves_nothing(
    session: Session,
    open_session: OpenSession,
    start: Callable[..., Future[Any]],
    until_blocked: Callable[..., None],
) -> None:
    """Else the history of a later one of its name began with the times of this one."""
    session.call(AddSchedule(schedule()))
    session.rows("update wherry.schedule set due_at = wherry.now(), next_at = wherry.now()")
    first, second = open_session(), open_session()
    first.begin()
    fired = first.call(SettleSchedules()).fired

    waiting = start(second.call, DeleteSchedule("s"))
    until_blocked(second, first)
    first.rows("commit")

    assert len(fired) == 1
    assert result_of(waiting) is True
    assert session.value("select count(*) from wherry.tick") == 0
