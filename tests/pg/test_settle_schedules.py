"""Each time of a schedule is settled once: it brings a task, or it is written why not."""

from __future__ import annotations

import pytest

from tests.facts import wait_for
from tests.pg.schedules import (
    NOON,
    StillClock,
    beat,
    declare,
    minutes,
    outcomes,
    planned_of,
    schedule,
    seen,
    settle,
    ticks,
)
from tests.pg.support import OpenSession, Session
from wherry.commands.declaring import DeclareSchedules
from wherry.commands.schedules import CountTicks, PruneTicks
from wherry.commands.scheduling import ListDue, SettleSchedules
from wherry.commands.workers import LeaveWorker
from wherry.domain.state import State


@pytest.fixture
def clock(session: Session) -> StillClock:
    return StillClock(session, NOON)


def test_a_schedule_brings_a_task_with_all_that_was_said_of_it(
    session: Session, clock: StillClock
) -> None:
    said = schedule(
        payload={"a": 1}, queue="q", priority=7, max_attempts=3, timeout=9, ttl=3600, tags=["x"],
        headers={"h": "v"}, retry=None,
    )  # fmt: skip
    declare(session, said)
    [before] = settle(session)
    clock.advance(minutes=1)

    [step] = settle(session)

    assert before.fired == ()
    [(name, at, id_)] = step.fired
    task = session.task(id_)
    assert (name, task.payload, task.queue, task.priority) == ("s", {"a": 1}, "q", 7)
    assert (task.max_attempts, task.timeout_seconds, task.tags) == (3, 9.0, ("x",))
    assert task.headers == {
        "h": "v", "wherry-schedule": "s", "wherry-planned-at": at.isoformat(),
    }  # fmt: skip
    assert session.value("select ttl_seconds from wherry.live") == 3600
    assert (at.second, at.microsecond) == (0, 0)
    assert ticks(session)[0].task_id == id_
    assert seen(session).fired == 1


def test_what_is_due_tells_when_the_next_is(session: Session, clock: StillClock) -> None:
    assert session.call(SettleSchedules()).next_in is None
    declare(session, schedule())

    [step] = settle(session)

    assert step.next_in is not None
    assert 0 < step.next_in <= 60


def test_a_large_payload_is_brought_whole_each_time(session: Session, clock: StillClock) -> None:
    declare(session, schedule(payload={"a": "x" * 100_000}))
    for _ in range(2):
        clock.advance(minutes=1)
        [step] = settle(session)
        [(_, _, id_)] = step.fired
        assert len(session.task(id_).payload["a"]) == 100_000


@pytest.mark.parametrize(
    ("missed", "wanted"),
    [
        ("last", [("missed", 199), ("fired", 1)]),
        ("all", [("missed", 100), *[("fired", 1)] * 100]),
        ("skip", [("missed", 199), ("fired", 1)]),
    ],
)
def test_what_was_missed_is_made_up_for_as_its_schedule_says(
    session: Session, clock: StillClock, missed: str, wanted: list[tuple[str, int]]
) -> None:
    """S2."""
    declare(session, schedule(missed=missed))
    first = seen(session).next_at
    clock.advance(minutes=200)

    settle(session)

    assert first is not None
    assert outcomes(session) == wanted
    told = seen(session)
    assert told.fired + told.missed_ticks == 200
    assert told.last_at == first + minutes(199)
    assert told.next_at == first + minutes(200)
    assert len(planned_of(session)) == told.fired


def test_with_skip_nothing_is_run_later_than_a_minute(session: Session, clock: StillClock) -> None:
    declare(session, schedule(cron="0 * * * *", missed="skip"))
    clock.advance(minutes=60, seconds=40.1)

    settle(session)

    assert outcomes(session) == [("missed", 1)]
    assert planned_of(session) == []
    clock.advance(minutes=60, seconds=-0.1)
    settle(session)
    assert outcomes(session) == [("missed", 1), ("fired", 1)]


def test_a_week_of_minutes_is_one_line_and_few_steps(session: Session, clock: StillClock) -> None:
    declare(session, schedule())
    clock.advance(days=7)

    steps = settle(session)

    assert len(steps) == 11
    assert outcomes(session) == [("missed", 10_079), ("fired", 1)]


def test_many_that_missed_much_share_what_a_step_looks_at(
    session: Session, clock: StillClock
) -> None:
    """It is the loop of a worker's handlers that computes their times."""
    declare(session, *(schedule(f"s{n}") for n in range(10)))
    clock.advance(days=1)

    step = session.call(SettleSchedules())

    assert step.more
    assert step.fired == ()
    assert sum(span.n for _, span in step.passed) == 10 * 199
    settle(session)
    assert outcomes(session, "s7") == [("missed", 1439), ("fired", 1)]


def test_a_week_of_minutes_with_all_makes_up_for_the_newest_hundred(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule(missed="all"))
    first = seen(session).next_at
    clock.advance(days=7)

    settle(session)

    assert first is not None
    assert outcomes(session) == [("missed", 9_980), *[("fired", 1)] * 100]
    assert planned_of(session) == [first + minutes(n) for n in range(9_980, 10_080)]


def test_a_time_that_was_settled_brings_no_second_task_if_clocks_step_back(
    session: Session, clock: StillClock
) -> None:
    """CRON-01, S1: also if the row of the schedule forgets how far it was."""
    declare(session, schedule())
    for step in (1, 1, -2, 1, 1, -90, 88, 2, 1, 120, -120, 1):
        clock.advance(minutes=step)
        settle(session)
    planned = planned_of(session)
    told = seen(session)
    assert len(planned) == len(set(planned)) == told.fired
    assert planned[-1] == NOON.replace(second=0) + minutes(123)
    assert told.fired + told.missed_ticks == 123

    session.rows(
        "update wherry.schedule set next_at = next_at - interval '2 minutes', last_at = null,"
        " due_at = due_at - interval '2 minutes'"
    )

    clock.advance(minutes=119)
    settle(session)

    assert planned_of(session) == planned
    assert seen(session).fired == told.fired


def test_tasks_of_one_schedule_do_not_overlap_if_it_says_so(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule(overlap="skip"))
    clock.advance(minutes=1)
    [first] = settle(session)
    for _ in range(3):
        clock.advance(minutes=1)
        settle(session)
    session.complete(session.lease_one())
    clock.advance(minutes=1)
    settle(session)

    assert outcomes(session) == [("fired", 1), ("overlapped", 3), ("fired", 1)]
    assert ticks(session)[1].reason == f"task {first.fired[0][2]} had not ended"
    assert seen(session).overlapped == 3


def test_a_task_that_is_to_be_tried_again_has_not_ended(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule(overlap="skip"))
    clock.advance(minutes=1)
    settle(session)
    session.fail(session.lease_one())
    clock.advance(minutes=1)

    settle(session)

    assert outcomes(session) == [("fired", 1), ("overlapped", 1)]


def test_of_those_made_up_for_only_one_does_not_overlap(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule(overlap="skip", missed="all"))
    clock.advance(minutes=9)

    settle(session)

    assert outcomes(session) == [("fired", 1), ("overlapped", 8)]


def test_what_nobody_declares_any_more_brings_nothing_until_it_is_declared_again(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule())
    session.call(LeaveWorker(beat(session)))
    clock.advance(minutes=2)

    [step] = settle(session)
    clock.advance(minutes=2)

    assert (step.fired, step.next_in) == ((), None)
    told = seen(session)
    assert (told.declared_by, told.next_at, told.fired) == (0, None, 0)
    declare(session, schedule(), n=2)
    settle(session)
    assert outcomes(session) == [("missed", 3), ("fired", 1)]


def test_a_schedule_that_somebody_else_is_at_is_left_to_them(
    session: Session, open_session: OpenSession, clock: StillClock
) -> None:
    """Whoever hangs holds up one schedule, and that not for long."""
    declare(session, schedule("a"), schedule("b"))
    clock.advance(minutes=1)
    hung = open_session()
    hung.begin()
    hung.call(SettleSchedules(name="a"))

    [step] = settle(session)

    assert [name for name, _, _ in step.fired] == ["b"]
    assert step.next_in is not None
    assert step.next_in <= 0
    timeout = hung.value("show idle_in_transaction_session_timeout")
    assert timeout == "10s"
    hung.rollback()
    clock.advance(minutes=2)
    settle(session)
    assert outcomes(session, "a") == [("missed", 2), ("fired", 1)]


def test_who_dies_before_the_commit_leaves_nothing(
    session: Session, open_session: OpenSession, clock: StillClock
) -> None:
    """S1."""
    declare(session, schedule())
    clock.advance(minutes=1)
    dying = open_session()
    dying.begin()
    assert len(dying.call(SettleSchedules()).fired) == 1
    dying.close()
    wait_for(
        lambda: session.rows("select from pg_stat_activity where pid = %s", dying.pid) == [],
        what="the dead one's transaction is over",
    )

    settle(session)

    assert outcomes(session) == [("fired", 1)]
    assert len(planned_of(session)) == 1


def test_times_that_cannot_be_told_are_put_off_and_others_are_not(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule("odd"), schedule("well"))
    session.rows("update wherry.schedule set tz = 'Mars/Olympus' where name = 'odd'")
    clock.advance(minutes=1)

    [step] = settle(session)

    assert [name for name, _, _ in step.fired] == ["well"]
    [(name, trouble)] = step.troubles
    assert name == "odd"
    assert "Mars/Olympus" in trouble
    assert seen(session, "odd").trouble == trouble
    assert session.call(ListDue()) == []
    session.rows("update wherry.schedule set tz = 'UTC' where name = 'odd'")
    clock.advance(minutes=1)
    settle(session)
    told = seen(session, "odd")
    assert (told.trouble, told.fired, told.missed_ticks) == (None, 1, 1)


def test_old_ticks_are_forgotten_and_bring_nothing_again(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule(cron="0 0 * * *"))
    clock.advance(days=1)
    settle(session)
    clock.advance(days=31)

    assert session.call(PruneTicks()) is False

    assert ticks(session) == []
    settle(session)
    assert outcomes(session) == [("missed", 30), ("fired", 1)]


def test_what_came_of_all_times_is_counted_for_metrics(session: Session, clock: StillClock) -> None:
    """CRON-17."""
    assert session.call(CountTicks()).late_seconds == 0
    declare(session, schedule())
    clock.advance(minutes=5)
    late = session.call(CountTicks()).late_seconds
    settle(session)

    told = session.call(CountTicks())

    assert late == 260
    assert told.late_seconds == 0
    assert told.counts == {
        "s": {"fired": 1, "missed": 4, "overlapped": 0, "paused": 0, "by_hand": 0}
    }


def test_a_fired_task_wakes_who_waits(session: Session, clock: StillClock) -> None:
    declare(session, schedule())
    clock.advance(minutes=1)
    settle(session)

    assert session.task(session.lease_one().id).state is State.LEASED


def test_a_worker_that_is_not_known_declares_nothing_yet(session: Session) -> None:
    beat(session, 1)
    stranger = "00000000-0000-0000-0000-0000000000ff"

    stood = session.call(DeclareSchedules((schedule(),), stranger))

    assert (stood.added, stood.is_unknown) == (("s",), True)
    assert seen(session).declared_by == 0


def test_a_step_stores_no_more_than_so_many_bytes(session: Session, clock: StillClock) -> None:
    """A night of large payloads was hundreds of megabytes in one statement, and never came."""
    large = {"x": "y" * 900_000}
    declare(
        session,
        *(schedule(f"all{n}", payload=large, missed="all") for n in range(2)),
        schedule("last", payload=large, overlap="skip"),
    )
    clock.advance(minutes=20)

    steps = settle(session)

    assert max(len(step.fired) for step in steps) == 18
    for name in ("all0", "all1"):
        assert outcomes(session, name) == [("fired", 1)] * 20
        assert len(set(planned_of(session, name))) == 20
    assert outcomes(session, "last") == [("missed", 19), ("fired", 1)]
