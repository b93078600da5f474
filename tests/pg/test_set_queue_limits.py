"""The limits of a queue hold at every instant, whoever leases; at once: tests/race."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import psycopg
import pytest

from tests.pg.limited import fill, limit
from tests.pg.support import Session, result_of
from wherry.commands.leases import LeaseForPollers
from wherry.commands.queues import (
    ListQueues,
    PauseQueue,
)
from wherry.domain.front import Front
from wherry.domain.lease import Lease, Poller, Reported
from wherry.domain.limits import QueueLimits
from wherry.errors import InvalidOption
from wherry.testing import Clock

WORKER = "00000000-0000-4000-8000-000000000001"


def past_front(session: Session, n: int) -> list[Lease]:
    return session.lease(n, front=Front().with_lanes((0,)))


def polled(session: Session, n: int) -> list[Lease]:
    pollers = tuple(Poller(f"w{number}", 1) for number in range(n))
    dealt = session.call(LeaseForPollers("default", None, pollers))
    return [lease for leases in dealt for lease in leases]


DOORS = pytest.mark.parametrize("lease", [Session.lease, past_front, polled])


@DOORS
def test_no_more_are_leased_than_may_run_at_once(
    session: Session, lease: Callable[[Session, int], list[Lease]]
) -> None:
    fill(session, 9)
    limit(session, max_running=4)

    first = lease(session, 3)
    second = lease(session, 3)

    assert (len(first), len(second), len(lease(session, 3))) == (3, 1, 0)
    session.complete(first[0])
    assert len(lease(session, 9)) == 1


@DOORS
def test_no_more_start_in_a_time_than_the_rate_allows(
    session: Session, clock: Clock, lease: Callable[[Session, int], list[Lease]]
) -> None:
    fill(session, 30)
    limit(session, rate=6, per=60, burst=2)

    assert (len(lease(session, 9)), len(lease(session, 9))) == (2, 0)
    clock.advance(seconds=9)
    assert lease(session, 9) == []
    clock.advance(seconds=1)
    assert len(lease(session, 9)) == 1
    clock.advance(minutes=60)
    assert len(lease(session, 9)) == 2


def test_other_queues_know_nothing_of_a_limit(session: Session) -> None:
    fill(session, 9, queue="other")
    limit(session, max_running=1, rate=1, per=60)

    assert len(session.lease(9, queue="other")) == 9


def test_both_limits_hold_together(session: Session) -> None:
    fill(session, 9)
    limit(session, max_running=2, rate=1, per=3600, burst=3)

    first = session.lease(9)
    session.complete(*first)

    assert (len(first), len(session.lease(9))) == (2, 1)


def test_what_was_leased_before_the_limit_is_counted_and_goes_on(session: Session) -> None:
    fill(session, 9)
    before = session.lease(5)

    limit(session, max_running=2)

    assert session.heartbeat(*before) == [Reported.EXTENDED] * 5
    assert session.lease(9) == []
    session.complete(*before[:3])
    assert session.lease(9) == []
    session.complete(before[3])
    assert len(session.lease(9)) == 1


def test_a_lease_that_ran_out_counts_until_it_is_taken_back(session: Session, clock: Clock) -> None:
    fill(session, 3)
    limit(session, max_running=1)
    [lost] = session.lease(seconds=5)

    clock.advance(seconds=60)

    assert session.lease(9) == []
    session.reap()
    [lease] = session.lease(9)
    assert lease.id != lost.id


def test_a_zombie_frees_no_place_but_its_own(session: Session, clock: Clock) -> None:
    """DBL-08: fifty zombies return late, each while another task has the only place."""
    fill(session, 60)
    limit(session, max_running=1)
    zombies: list[Lease] = []
    for _ in range(50):
        [zombie] = session.lease(9, seconds=5)
        clock.advance(seconds=6)
        session.reap()
        zombies.append(zombie)

    [held] = session.lease(9)
    for zombie in zombies:
        assert session.complete(zombie) == [Reported.LOST]
        assert session.lease(9) == []

    session.complete(held)
    assert len(session.lease(9)) == 1


@pytest.mark.parametrize(
    "report",
    [Session.complete, Session.fail, Session.release, Session.snooze, Session.heartbeat],
    ids=lambda report: report.__name__,
)
def test_who_gave_a_task_back_frees_no_place_of_its_next_holder(
    session: Session, report: Callable[[Session, Lease], list[Reported]]
) -> None:
    """DBL-08: its lease is alive by another task of the same batch, so only the fence is left."""
    fill(session, 2)
    limit(session, max_running=2)
    gave_back, _ = session.lease(9)
    session.release(gave_back)
    [held] = session.lease(9, worker="next")
    assert held.id == gave_back.id
    fill(session, 1)

    assert report(session, gave_back) == [Reported.LOST]

    assert session.lease(9) == []
    assert session.complete(held) == [Reported.DONE]
    assert len(session.lease(9)) == 1


@pytest.fixture
def patient(session: Session) -> None:
    """Let who leases wait for as long as it takes."""
    session.rows("alter function wherry.room_in(text) set lock_timeout = '60s'")


@pytest.mark.usefixtures("patient")
def test_two_who_lease_at_once_share_the_room(
    session: Session,
    other: Session,
    start: Callable[..., Future[Any]],
    until_blocked: Callable[[Session, Session], None],
) -> None:
    fill(session, 9)
    limit(session, max_running=3)
    session.begin()
    first = session.lease(2)

    second = start(other.lease, 9)
    until_blocked(other, session)
    session.commit()

    assert (len(first), len(result_of(second))) == (2, 1)


def test_a_lease_that_was_rolled_back_leaves_its_room_and_its_starts(session: Session) -> None:
    fill(session, 9)
    limit(session, max_running=3, rate=1, per=3600, burst=3)
    session.begin()
    assert len(session.lease(3)) == 3

    session.rollback()

    assert len(session.lease(9)) == 3


def test_a_row_that_somebody_holds_keeps_nobody_for_long(session: Session, other: Session) -> None:
    fill(session, 2)
    fill(session, 2, queue="other")
    limit(session, max_running=2)
    other.begin()
    other.rows("select queue from wherry.limited for update")

    assert session.lease(9) == []

    assert len(session.lease(9, queue="other")) == 2
    other.rollback()
    assert len(session.lease(9)) == 2


def test_a_place_is_taken_until_the_transaction_that_completes_it_commits(
    session: Session, other: Session
) -> None:
    fill(session, 2)
    limit(session, max_running=1)
    [lease] = session.lease()
    session.begin()
    session.complete(lease)

    assert other.lease(9) == []

    session.commit()
    assert len(other.lease(9)) == 1


def test_a_transaction_that_sees_only_the_past_is_refused(session: Session) -> None:
    """Its count would be of its snapshot, in which what others have leased since is missing."""
    fill(session, 2)
    limit(session, max_running=1)
    session.begin("repeatable read")

    with pytest.raises(psycopg.errors.FeatureNotSupported, match="read committed"):
        session.lease()

    session.rollback()


def test_a_task_on_its_last_attempt_that_nobody_takes_is_no_start(session: Session) -> None:
    fill(session, 1, max_attempts=1)
    limit(session, rate=1, per=3600, burst=1)

    assert session.lease(9, limit_last=0) == []

    assert len(session.lease(9)) == 1


def test_a_rate_that_is_set_anew_gives_nothing_away(session: Session, clock: Clock) -> None:
    fill(session, 30)
    limit(session, rate=1, per=60, burst=2)
    session.lease(9)

    limit(session, rate=1, per=10, burst=9)

    assert session.lease(9) == []
    clock.advance(seconds=10)
    assert len(session.lease(9)) == 1
    limit(session)
    limit(session, rate=1, per=10, burst=9)
    assert len(session.lease(20)) == 9


def test_a_clock_that_was_set_back_stops_no_rate_for_long(session: Session, clock: Clock) -> None:
    fill(session, 9)
    limit(session, rate=1, per=10, burst=1)
    session.lease()

    session.rows("update wherry.limited set noted_at = noted_at + interval '1 hour'")

    assert session.lease() == []
    clock.advance(seconds=10)
    assert len(session.lease()) == 1


def test_queues_are_listed_with_their_limits_the_empty_ones_too(session: Session) -> None:
    fill(session, 2, queue="busy")
    session.lease(queue="busy")
    limit(session, "busy", max_running=3)
    limit(session, "empty", rate=100, per=60)
    session.call(PauseQueue("empty"))

    busy, empty = session.call(ListQueues())

    assert (busy.leased, busy.limits) == (1, QueueLimits(3))
    assert empty.limits == QueueLimits(None, 100, 60.0, 2)
    assert empty.paused_at is not None


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_running": 0}, "pause the queue"),
        ({"max_running": True}, "must be an integer"),
        ({"rate": 0}, "must be between 1"),
        ({"rate": 1.5}, "must be an integer"),
        ({"rate": 1, "per": 0}, "from a millisecond"),
        ({"rate": 1, "per": True}, "from a millisecond"),
        ({"rate": 1, "burst": 0}, "must be between 1"),
        ({"per": 5}, "goes with a rate"),
        ({"burst": 5}, "goes with a rate"),
    ],
)
def test_limits_that_are_none_are_refused(limits: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        QueueLimits.of(**limits)
