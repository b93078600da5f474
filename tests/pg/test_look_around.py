"""One look tells what maintenance there is to do; what it tells of, the step itself then finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.pg.support import Session
from wherry.commands.maintenance import DiscardTasks, LookAround, Seen, UnparkTasks
from wherry.commands.tally import RollFlow
from wherry.testing import Clock

NOTHING = Seen()


def look(session: Session, *, ready: bool = True) -> Seen:
    """Look around; moments come back as whole seconds. Chores are due by their own time only."""
    seen = session.call(LookAround(ready=ready))

    def whole(seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds)

    return replace(
        seen,
        lease_ends_in=whole(seen.lease_ends_in),
        due_in=whole(seen.due_in),
        discard_in=whole(seen.discard_in),
        chores=(),
    )


def test_in_an_empty_database_there_is_nothing_to_do(session: Session) -> None:
    assert look(session) == NOTHING


def test_a_lease_is_told_until_it_ends_and_until_it_is_taken_back(
    session: Session, clock: Clock
) -> None:
    session.enqueue()
    session.lease_one(seconds=30)
    assert look(session) == replace(NOTHING, lease_ends_in=30)

    clock.advance(seconds=40)

    assert look(session).lease_ends_in == -10
    assert len(session.reap()) == 1
    assert look(session).lease_ends_in is None


def test_the_first_delayed_task_is_told_of(session: Session, clock: Clock) -> None:
    session.enqueue(delay=600)
    session.enqueue(delay=20)

    assert look(session) == replace(NOTHING, due_in=20)

    clock.advance(seconds=30)
    assert session.promote().promoted == 1
    assert look(session) == replace(NOTHING, due_in=570, ready=True)


def test_a_time_to_live_is_told_of_as_long_as_the_task_waits(
    session: Session, clock: Clock
) -> None:
    session.enqueue(ttl=10)
    session.enqueue(ttl=50)
    session.lease_one(seconds=600)

    # Of the one that runs it matters no more.
    assert look(session) == replace(NOTHING, lease_ends_in=600, discard_in=50, ready=True)

    clock.advance(seconds=60)
    assert len(session.call(DiscardTasks()).ids) == 1
    assert look(session).discard_in is None


def test_parked_tasks_are_told_of(session: Session) -> None:
    session.enqueue()
    session.rows("update wherry.live set state = 'parked'")

    assert look(session) == replace(NOTHING, parked=True)
    assert session.call(UnparkTasks()).unparked == 0


@pytest.mark.parametrize("asked", [True, False])
def test_ready_tasks_are_told_of_if_that_is_asked(session: Session, asked: bool) -> None:
    session.enqueue()

    assert look(session, ready=asked) == replace(NOTHING, ready=asked)


def test_a_chore_is_told_of_when_it_is_due_and_not_when_it_was_done(
    session: Session, clock: Clock
) -> None:
    # As after a migration: the template of this database may be hours old.
    session.rows(
        "update wherry.chore set due_at = now() + interval '1 hour' where name = 'recount'"
    )
    at_first = session.call(LookAround()).chores
    session.call(RollFlow())
    when_done = session.call(LookAround()).chores
    clock.advance(hours=2)
    later = session.call(LookAround()).chores

    assert (at_first, when_done, later) == (("roll",), (), ("recount", "roll"))
