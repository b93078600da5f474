"""Every event meets every state on PostgreSQL, and what comes of it is what domain/state.py says.

What the table does not name must be refused, and a refusal changes no row of any table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.pg.support import Session
from wherry.commands.maintenance import DiscardTasks
from wherry.domain.lease import Lease
from wherry.domain.state import TRANSITIONS, Event, State
from wherry.testing import Clock

LEASED_FOR_SECONDS = 36_000.0
TTL_SECONDS = 3_600.0
LAST = (Event.FAIL_LAST, Event.LOSE_LAST)
# What ends as canceled a leased task whose cancel was asked for; all but complete.
LETS_GO = (
    Event.FAIL,
    Event.FAIL_FOR_GOOD,
    Event.FAIL_LAST,
    Event.SNOOZE,
    Event.RELEASE,
    Event.LOSE,
    Event.LOSE_LAST,
)


@dataclass
class Stage:
    """A task in some state, and the lease that somebody holds, or once held, on it."""

    session: Session
    clock: Clock
    id: int
    lease: Lease

    @property
    def state(self) -> State:
        return self.session.task(self.id).state


def set_up(session: Session, clock: Clock, state: State, *, last: bool) -> Stage:
    id_ = session.enqueue(ttl=TTL_SECONDS, key="k", max_attempts=1 if last else 2)
    lease = session.lease_one(seconds=LEASED_FOR_SECONDS)
    match state:
        case State.QUEUED:
            session.release(lease)
        case State.LEASED:
            pass
        case State.SUCCEEDED:
            session.complete(lease)
        case State.FAILED:
            session.fail(lease, verdict="fail")
        case State.DEAD:
            session.rows("update wherry.live set max_attempts = 1")
            session.fail(lease)
        case State.CANCELED:
            session.cancel(id_)
            session.fail(lease)
    stage = Stage(session, clock, id_, lease)
    assert stage.state is state
    return stage


def prepare(stage: Stage, event: Event) -> None:
    """Let pass the time that the event needs; this changes no row."""
    if event in (Event.LOSE, Event.LOSE_LAST):
        stage.clock.advance(seconds=LEASED_FOR_SECONDS + 1)
    elif event is Event.EXPIRE:
        stage.clock.advance(seconds=TTL_SECONDS + 1)


FIRE: dict[Event, Callable[[Stage], object]] = {
    Event.LEASE: lambda stage: stage.session.lease(),
    Event.COMPLETE: lambda stage: stage.session.complete(stage.lease),
    Event.FAIL: lambda stage: stage.session.fail(stage.lease),
    Event.FAIL_FOR_GOOD: lambda stage: stage.session.fail(stage.lease, verdict="fail"),
    Event.FAIL_LAST: lambda stage: stage.session.fail(stage.lease),
    Event.SNOOZE: lambda stage: stage.session.snooze(stage.lease, delay=60),
    Event.RELEASE: lambda stage: stage.session.release(stage.lease),
    Event.CANCEL: lambda stage: stage.session.cancel(stage.id),
    Event.EXPIRE: lambda stage: stage.session.call(DiscardTasks()),
    Event.LOSE: lambda stage: stage.session.reap(),
    Event.LOSE_LAST: lambda stage: stage.session.reap(),
    Event.REQUEUE: lambda stage: stage.session.requeue(stage.id),
}


def test_every_event_can_be_fired() -> None:
    assert FIRE.keys() == set(Event)


@pytest.mark.parametrize("event", list(Event))
@pytest.mark.parametrize("state", list(State))
def test_an_event_leads_where_the_table_says_or_changes_nothing(
    session: Session, clock: Clock, state: State, event: Event
) -> None:
    stage = set_up(session, clock, state, last=event in LAST)
    prepare(stage, event)
    before = session.dump()

    FIRE[event](stage)

    expected = TRANSITIONS.get((state, event))
    assert stage.state is (expected or state)
    assert (session.dump() == before) is (expected is None)


@pytest.mark.parametrize("event", list(Event))
def test_after_a_cancel_was_asked_for_only_a_complete_still_wins(
    session: Session, clock: Clock, event: Event
) -> None:
    stage = set_up(session, clock, State.LEASED, last=event in LAST)
    session.cancel(stage.id)
    prepare(stage, event)
    before = session.dump()

    FIRE[event](stage)

    if event is Event.COMPLETE:
        assert stage.state is State.SUCCEEDED
    elif event in LETS_GO:
        assert stage.state is State.CANCELED
    else:
        assert stage.state is State.LEASED
        assert session.dump() == before
