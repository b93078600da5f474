"""What workers declare stands in the database, and no two deploys take turns at it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from uuid import UUID

import pytest

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
)
from tests.pg.support import OpenSession, Session, result_of
from wherry import config
from wherry.commands.declaring import AddSchedule, DeclareSchedules
from wherry.commands.schedules import DeleteSchedule, PauseSchedule, ResumeSchedule
from wherry.commands.workers import LeaveWorker
from wherry.domain.schedule import Schedule
from wherry.errors import LimitReached

OLD = schedule(payload={"of": "old"})
NEW = schedule(payload={"of": "new"})


@pytest.fixture
def clock(session: Session) -> StillClock:
    return StillClock(session, NOON)


def payload(session: Session) -> object:
    return session.value("select payload ->> 'of' from wherry.schedule")


def leave(session: Session, n: int) -> None:
    session.call(LeaveWorker(beat(session, n)))


def test_declaring_again_changes_nothing(session: Session, clock: StillClock) -> None:
    stood = declare(session, schedule("a"), schedule("b"))
    before = session.dump("schedule", "declaration")
    clock.advance(seconds=1)

    again = declare(session, schedule("b"), schedule("a"))

    assert (stood.added, stood.is_news) == (("a", "b"), True)
    assert (again.added, again.replaced, again.is_news) == ((), (), False)
    assert session.dump("schedule", "declaration") == before


def test_newer_code_takes_the_place_of_older_and_keeps_what_is_known(
    session: Session, clock: StillClock
) -> None:
    declare(session, OLD)
    clock.advance(minutes=1)
    settle(session)

    stood = declare(session, NEW, n=2)

    assert stood.replaced == ("s",)
    told = seen(session)
    assert (payload(session), told.fired, told.declared_by) == ("new", 1, 2)


def test_older_code_that_starts_again_gives_way_as_long_as_newer_is_alive(
    session: Session, clock: StillClock
) -> None:
    """Else workers of two deploys would take turns for ever."""
    declare(session, OLD, n=1)
    declare(session, NEW, n=2)

    for n in (1, 3):
        assert declare(session, OLD, n=n).gave_way == ("s",)
        assert payload(session) == "new"
    # After a step back nobody declares the newer one any more.
    leave(session, 2)
    assert declare(session, OLD, n=3).replaced == ("s",)
    assert payload(session) == "old"
    # And the newer one, once it is stepped back from, is the one that is behind.
    assert declare(session, NEW, n=4).gave_way == ("s",)


def test_a_worker_that_is_silent_holds_nothing(session: Session, clock: StillClock) -> None:
    declare(session, OLD, n=1)
    declare(session, NEW, n=2)
    beat(session, 2, seconds=30)
    clock.advance(minutes=1)

    assert declare(session, OLD, n=1).replaced == ("s",)


def test_what_was_due_by_the_old_definition_is_settled_by_it_first(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule(payload={"of": "old"}, missed="all"))
    clock.advance(minutes=3)

    stood = declare(session, schedule(cron="0 0 1 1 *", payload={"of": "new"}), n=2)

    assert stood.replaced == ("s",)
    assert outcomes(session) == [("fired", 1)] * 3
    assert session.rows("select distinct payload ->> 'of' from wherry.tasks") == [("old",)]
    next_at = seen(session).next_at
    assert next_at is not None
    assert (next_at.month, next_at.day, next_at.hour) == (1, 1, 0)


def test_another_expression_brings_no_time_that_was_settled(
    session: Session, clock: StillClock
) -> None:
    """Also if the clock has stepped back meanwhile."""
    declare(session, schedule())
    clock.advance(minutes=10)
    settle(session)
    last = seen(session).last_at
    clock.step(-minutes(5))

    declare(session, schedule(cron="*/1 * * * *"), n=2)

    next_at = seen(session).next_at
    assert last is not None
    assert next_at == last + minutes(1)


def test_more_than_a_step_can_settle_puts_the_change_off(
    session: Session, clock: StillClock
) -> None:
    declare(session, schedule(payload={"of": "old"}))
    clock.advance(days=3)

    stood = declare(session, NEW, n=2)

    assert stood.replaced == ()
    settle(session)
    assert declare(session, NEW, n=2).replaced == ("s",)
    assert len(planned_of(session)) == 1


def test_a_changed_schedule_that_is_paused_stays_paused(
    session: Session, clock: StillClock
) -> None:
    declare(session, OLD)
    session.rows("update wherry.schedule set paused_at = wherry.now(), due_at = null")

    declare(session, NEW, n=2)
    clock.advance(minutes=5)

    assert payload(session) == "new"
    assert settle(session)[0].next_in is None


def test_a_paused_schedule_is_changed_after_its_time_has_passed_too(
    session: Session, clock: StillClock
) -> None:
    """Whoever pauses, mends the code and resumes must not get a task of the old definition."""
    declare(session, OLD)
    session.call(PauseSchedule("s"))
    clock.advance(minutes=5)

    assert declare(session, NEW, n=2).replaced == ("s",)

    assert payload(session) == "new"
    session.call(ResumeSchedule("s"))
    clock.advance(minutes=1)
    settle(session)
    assert outcomes(session) == [("paused", 5), ("fired", 1)]
    assert session.rows("select payload ->> 'of' from wherry.tasks") == [("new",)]


def test_a_deploy_that_stops_all_before_it_starts_one_loses_no_time(
    session: Session, clock: StillClock
) -> None:
    """What passed while nobody was there is made up, though the code that comes says otherwise."""
    declare(session, OLD)
    leave(session, 1)
    clock.advance(minutes=3)

    assert declare(session, NEW, n=2).replaced == ("s",)

    assert outcomes(session) == [("missed", 2), ("fired", 1)]
    assert session.rows("select payload ->> 'of' from wherry.tasks") == [("old",)]
    assert payload(session) == "new"


def test_an_unknown_worker_does_not_pass_over_what_is_due(
    session: Session, clock: StillClock
) -> None:
    declare(session, OLD)
    leave(session, 1)
    clock.advance(minutes=3)

    stood = session.call(DeclareSchedules((NEW,), str(UUID(int=7))))

    assert (stood.replaced, stood.is_unknown, payload(session)) == ((), True, "old")
    assert declare(session, NEW, n=7).replaced == ("s",)
    assert outcomes(session) == [("missed", 2), ("fired", 1)]


def test_code_mends_a_schedule_whose_times_cannot_be_told(
    session: Session, clock: StillClock
) -> None:
    declare(session, OLD)
    session.rows("update wherry.schedule set tz = 'Nowhere/Atall'")
    clock.advance(minutes=1)
    [step] = settle(session)
    assert len(step.troubles) == 1

    assert declare(session, NEW, n=2).replaced == ("s",)

    clock.advance(minutes=1)
    settle(session)
    assert (seen(session).trouble, outcomes(session)) == (None, [("fired", 1)])


@pytest.mark.parametrize("commits", [True, False])
def test_two_that_start_at_once_add_it_once(
    session: Session,
    open_session: OpenSession,
    start: Callable[..., Future[Any]],
    until_blocked: Callable[..., None],
    commits: bool,
) -> None:
    one, two = beat(session, 1), beat(session, 2)
    first, second = open_session(), open_session()
    first.begin()
    first.call(DeclareSchedules((OLD,), one))

    waiting = start(second.call, DeclareSchedules((OLD,), two))
    until_blocked(second, first)
    first.rows("commit" if commits else "rollback")

    assert result_of(waiting).added == (() if commits else ("s",))
    assert session.call(DeclareSchedules((OLD,), two)).replaced == ()
    assert seen(session).declared_by == (2 if commits else 1)


def test_what_was_made_by_hand_stands_and_fires_undeclared(
    session: Session, clock: StillClock
) -> None:
    assert session.call(AddSchedule(OLD)) is True
    assert session.call(AddSchedule(NEW)) is False
    clock.advance(minutes=1)
    settle(session)

    stood = declare(session, NEW)

    assert (stood.by_hand, stood.gave_way, stood.replaced) == (("s",), (), ())
    assert (payload(session), seen(session).by_hand, seen(session).fired) == ("old", True, 1)


def test_of_former_definitions_the_newest_are_remembered(session: Session) -> None:
    for n in range(25):
        declare(session, schedule(payload={"n": n}), n=n + 1)

    [former] = session.rows("select former from wherry.schedule")[0]

    assert len(former) == 20
    assert former[-1] == schedule(payload={"n": 23}).definition


def of_mine(session: Session, *schedules: Schedule, n: int = 1) -> DeclareSchedules:
    """Return what the *n*th worker declares, who may fill no queue but `mine`."""
    return DeclareSchedules(schedules, beat(session, n), may_fill=lambda queue: queue == "mine")


def test_what_moves_to_anothers_queue_is_kept_alive_no_longer(
    session: Session, clock: StillClock
) -> None:
    mine = of_mine(session, schedule(queue="mine"))
    session.call(mine)
    declare(session, schedule(queue="other"), n=2)

    assert session.call(mine).foreign == ("s",)
    leave(session, 2)
    clock.advance(minutes=1)
    settle(session)

    assert (seen(session).declared_by, seen(session).fired) == (0, 0)
    assert session.call(DeleteSchedule("s")) is True


def test_what_somebody_else_adds_meanwhile_for_another_queue_is_not_kept_alive(
    session: Session, open_session: OpenSession
) -> None:
    other = open_session()
    mine = of_mine(session, schedule("a", queue="mine"), schedule("s", queue="mine"))

    stood = session.call_around(
        mine,
        before="schedules/add_schedules",
        act=lambda: declare(other, schedule(queue="other"), n=2),
    )

    assert (stood.added, stood.foreign) == (("a",), ("s",))
    assert (seen(session, "a").declared_by, seen(session).declared_by) == (1, 1)
    assert seen(session).queue == "other"


def fill(session: Session, queue: str, *, up_to: int) -> None:
    """Let a queue have so many schedules."""
    session.call(AddSchedule(schedule("of-hand", queue=queue)))
    columns = (
        "cron, tz, type, queue, priority, max_attempts, tags, headers, payload, missed, overlap,"
        " definition, by_hand, created_at, changed_at, next_at, due_at"
    )
    session.rows(
        f"insert into wherry.schedule (name, {columns})"
        f" select 'n' || n, {columns} from wherry.schedule, generate_series(2, %s) as n"
        " where name = 'of-hand' returning name",
        up_to,
    )


def test_a_queue_has_no_more_than_so_many_schedules(session: Session, clock: StillClock) -> None:
    fill(session, "full", up_to=config.SCHEDULES_LIMIT - 1)
    declare(session, schedule("mover", queue="other"))
    last, many = schedule("last", queue="full"), schedule("many", queue="full")

    added = declare(session, many, last, schedule("elsewhere"))
    again = declare(session, many, last)
    clock.advance(minutes=1)
    moved = declare(session, schedule("mover", queue="full"), schedule("more", queue="full"))

    assert (added.added, added.no_room) == (("elsewhere", "many"), ("last",))
    assert (again.added, again.no_room) == ((), ("last",))
    assert (moved.replaced, moved.no_room) == ((), ("mover", "more"))
    assert seen(session, "mover").queue == "other"
    assert seen(session, "mover").declared_by == 1
    count = "select count(*) from wherry.schedule where queue = 'full'"
    assert session.value(count) == config.SCHEDULES_LIMIT


def test_one_more_by_hand_is_refused_with_what_to_do(session: Session) -> None:
    fill(session, "full", up_to=config.SCHEDULES_LIMIT)

    assert not session.call(AddSchedule(schedule("of-hand", queue="full")))
    with pytest.raises(LimitReached, match="'full' has 10,000 schedules; .* delete some"):
        session.call(AddSchedule(schedule("more", queue="full")))
    assert session.call(AddSchedule(schedule("more", queue="other")))


def test_what_is_beyond_the_limit_already_stands(session: Session) -> None:
    declare(session, schedule("mine", queue="full"), schedule("moves"))
    fill(session, "full", up_to=config.SCHEDULES_LIMIT + 5)

    same = declare(session, schedule("mine", queue="full"), schedule("moves"))
    changed = declare(session, schedule("mine", queue="full", payload={"of": "new"}))

    assert (same.no_room, same.is_news) == ((), False)
    assert (changed.replaced, changed.no_room) == (("mine",), ())
