"""Heartbeats extend what they name and nothing else: no mate, no stale token, nothing that is over.

A lease is one row for a batch. A heartbeat that names only some of the batch splits that row.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.pg.support import Session, spec
from wherry.commands.leases import HeartbeatLeases
from wherry.domain.lease import Lease, LeaseRef, Reported
from wherry.testing import Clock

EXTENDED, LOST, BUSY = Reported.EXTENDED, Reported.LOST, Reported.BUSY


def ends(session: Session) -> dict[int, float]:
    """Return for each task in how many seconds its lease ends."""
    return dict(
        session.rows(
            "select id, extract(epoch from expires_at - wherry.now())::float8"
            "  from wherry.lease, unnest(task_ids) as n (id)"
        )
    )


def leased(session: Session, n: int, *, seconds: float = 30.0) -> list[Lease]:
    session.enqueue_many(*(spec() for _ in range(n)))
    return session.lease(n, seconds=seconds)


def test_a_lease_is_extended_from_now(session: Session, clock: Clock) -> None:
    [lease] = leased(session, 1)
    clock.advance(seconds=20)

    assert session.heartbeat(lease, seconds=30) == [EXTENDED]

    assert 28 < ends(session)[lease.id] <= 30
    assert 28 < lease.remaining <= 30


def test_a_heartbeat_never_shortens_a_lease_and_can_be_seen_all_the_same(session: Session) -> None:
    [lease] = leased(session, 1, seconds=600)
    [[before]] = session.rows("select expires_at from wherry.lease")

    assert session.heartbeat(lease, seconds=1) == [EXTENDED]

    [[after]] = session.rows("select expires_at from wherry.lease")
    assert after - before == timedelta(microseconds=1)
    assert lease.remaining > 500


def test_a_whole_batch_is_extended_in_one_row(session: Session, clock: Clock) -> None:
    leases = leased(session, 50)
    clock.advance(seconds=20)

    assert session.heartbeat(*leases) == [EXTENDED] * 50

    assert session.value("select count(*) from wherry.lease") == 1
    assert min(ends(session).values()) > 28


def test_a_mate_that_is_not_named_keeps_its_old_end_and_is_reaped_by_itself(
    session: Session, clock: Clock
) -> None:
    named, mate, finished = leased(session, 3)
    session.complete(finished)
    clock.advance(seconds=20)

    assert session.heartbeat(named) == [EXTENDED]

    assert ends(session).keys() == {named.id, mate.id}
    assert ends(session)[named.id] > 28
    assert ends(session)[mate.id] < 12
    clock.advance(seconds=15)
    assert session.reap().queued == (mate.id,)
    assert session.complete(named, mate) == [Reported.DONE, LOST]


def test_a_mate_left_out_may_be_named_again_later(session: Session, clock: Clock) -> None:
    one, two = leased(session, 2)
    session.heartbeat(one)
    clock.advance(seconds=20)

    assert session.heartbeat(one, two) == [EXTENDED, EXTENDED]

    assert min(ends(session).values()) > 28
    assert session.complete(one, two) == [Reported.DONE] * 2


def test_parts_of_a_lease_can_be_parted_again(session: Session, clock: Clock) -> None:
    leases = leased(session, 8)
    for n in (6, 4, 2, 1):
        clock.advance(seconds=5)
        assert session.heartbeat(*leases[:n]) == [EXTENDED] * n

    assert sorted(ends(session)) == sorted(lease.id for lease in leases)
    assert session.value("select count(*) from wherry.lease") == 5
    assert session.fail(*leases) == [Reported.REQUEUED] * 8


def test_an_expired_lease_is_not_revived_also_before_any_reaper_pass(
    session: Session, clock: Clock
) -> None:
    [lease] = leased(session, 1)
    clock.advance(seconds=31)
    before = session.dump()

    assert session.heartbeat(lease) == [LOST]

    assert session.dump() == before
    assert session.reap().queued == (lease.id,)


def test_a_reaped_lease_is_not_revived(session: Session, clock: Clock) -> None:
    [lease] = leased(session, 1)
    clock.advance(seconds=31)
    session.reap()
    before = session.dump()

    assert session.heartbeat(lease) == [LOST]

    assert session.dump() == before


def test_a_stale_lease_of_the_same_worker_extends_nothing(session: Session, clock: Clock) -> None:
    [stale] = leased(session, 1)
    session.release(stale)
    current = session.lease_one()
    before = session.dump()

    assert session.heartbeat(stale) == [LOST]

    assert session.dump() == before
    assert session.heartbeat(current) == [EXTENDED]


@pytest.mark.parametrize("wrong", ["token", "lease_id", "id"])
def test_a_heartbeat_with_a_wrong_fence_extends_nothing(session: Session, wrong: str) -> None:
    [lease] = leased(session, 1)
    setattr(lease, wrong, LEASE_ID if wrong == "lease_id" else getattr(lease, wrong) + 1)
    before = session.dump()

    assert session.heartbeat(lease, seconds=900) == [LOST]

    assert session.dump() == before


LEASE_ID = "00000000-0000-4000-8000-000000000001"


def test_one_lost_lease_does_not_spoil_its_neighbours(session: Session, clock: Clock) -> None:
    leases = leased(session, 3)
    session.complete(leases[1])
    clock.advance(seconds=20)

    assert session.heartbeat(*leases) == [EXTENDED, LOST, EXTENDED]

    assert ends(session).keys() == {leases[0].id, leases[2].id}


def test_leases_of_many_batches_and_queues_are_extended_at_once(
    session: Session, clock: Clock
) -> None:
    leases: list[Lease] = []
    for queue in ("a", "b", "c"):
        session.enqueue_many(*(spec(queue=queue) for _ in range(4)))
        leases += session.lease(2, queue=queue) + session.lease(2, queue=queue)
    clock.advance(seconds=20)

    assert session.heartbeat(*reversed(leases)) == [EXTENDED] * 12

    assert min(ends(session).values()) > 28


def test_a_lease_named_twice_is_extended_once_and_can_still_be_reaped(
    session: Session, clock: Clock
) -> None:
    [lease] = leased(session, 1)

    assert session.heartbeat(lease, lease) == [EXTENDED, EXTENDED]

    assert session.value("select task_ids from wherry.lease") == [lease.id]
    clock.advance(seconds=31)
    assert session.reap().queued == (lease.id,)


def test_the_worker_learns_of_a_cancel_and_keeps_the_lease_meanwhile(
    session: Session, clock: Clock
) -> None:
    lease, mate = leased(session, 2)
    session.cancel(lease.id)
    clock.advance(seconds=20)

    assert session.heartbeat(lease, mate) == [Reported.CANCEL_REQUESTED, EXTENDED]

    assert ends(session)[lease.id] > 28


def test_a_lease_row_that_somebody_else_works_on_is_busy_not_lost(
    session: Session, other: Session
) -> None:
    [lease] = leased(session, 1)
    other.begin()
    other.heartbeat(lease)

    assert session.heartbeat(lease) == [BUSY]

    other.commit()
    assert session.heartbeat(lease) == [EXTENDED]


def test_an_open_transaction_that_completes_a_task_delays_no_heartbeat(
    session: Session, other: Session, clock: Clock
) -> None:
    leases = leased(session, 3)
    other.begin()
    other.complete(leases[0])
    session.rows("set lock_timeout = '1ms'")
    clock.advance(seconds=20)

    assert session.heartbeat(*leases) == [EXTENDED] * 3

    other.rollback()
    assert session.complete(*leases) == [Reported.DONE] * 3


def test_no_leases_are_no_trouble(session: Session) -> None:
    assert session.call(HeartbeatLeases(())) == []


def test_a_lease_of_another_queue_is_not_extended(session: Session) -> None:
    """What queue somebody may work in is judged by what stands in their lease token."""
    [lease] = leased(session, 1)
    lie = LeaseRef(lease.deadline, lease.id, "another", lease.token, lease.lease_id)
    before = session.dump()

    assert session.heartbeat(lie, seconds=600) == [LOST]
    assert session.dump() == before
    assert session.heartbeat(lie, lease, seconds=600) == [LOST, EXTENDED]
