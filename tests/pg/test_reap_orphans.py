"""A leased task that no lease row vouches for is taken back, whatever made it so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pg.support import Session, spec
from wherry.commands.maintenance import Adopted, ReapOrphans
from wherry.domain.lease import Lease, Reported
from wherry.domain.state import State
from wherry.maintenance.steps import Maintained, maintenance_pass


def leased(session: Session, n: int = 1, **options: Any) -> list[Lease]:
    session.enqueue_many(*(spec(**options) for _ in range(n)))
    return session.lease(n)


@pytest.mark.parametrize(
    "by_hand",
    [
        "delete from wherry.lease",
        "update wherry.lease set task_ids = '{}'",
        "update wherry.live set lease_id = gen_random_uuid()",
        "update wherry.live set lease_id = null",
    ],
)
def test_an_orphan_is_retried_and_its_old_holder_refused(session: Session, by_hand: str) -> None:
    """LOST-03: What no row vouches for is found, too."""
    [lease] = leased(session)
    session.rows(by_hand)

    assert session.call(ReapOrphans()) == Adopted(1)

    assert session.reap().queued == (lease.id,)
    task = session.task(lease.id)
    assert (task.state, task.attempts) == (State.QUEUED, 1)
    assert [a.outcome for a in task.history] == ["lost"]
    assert session.complete(lease) == [Reported.LOST]


def test_a_hand_that_set_the_state_alone_loses_no_task(session: Session) -> None:
    id_ = session.enqueue()
    session.rows("update wherry.live set state = 'leased'")

    assert session.call(ReapOrphans()) == Adopted(1)

    assert session.reap().queued == (id_,)


def test_an_orphan_is_adopted_once(session: Session) -> None:
    ids = {lease.id for lease in leased(session, 3)}
    session.rows("delete from wherry.lease")
    assert session.call(ReapOrphans(2)) == Adopted(2)

    assert session.call(ReapOrphans(2)) == Adopted(1)

    assert session.call(ReapOrphans(2)) == Adopted(0)
    assert set(session.reap().queued) == ids


def test_one_pass_of_maintenance_takes_an_orphan_back(session: Session) -> None:
    leased(session)
    session.rows("delete from wherry.lease")
    done = Maintained()

    for step in maintenance_pass():
        done.add(session.call(step))

    assert done.reaped == 1


def test_tasks_with_a_lease_row_are_left_alone(session: Session, other: Session) -> None:
    leases = leased(session, 3)
    session.heartbeat(leases[0])
    session.complete(leases[1])
    other.begin()
    other.complete(leases[2])
    before = session.dump()

    assert session.call(ReapOrphans()) == Adopted(0)

    assert session.dump() == before


def test_orphans_end_dead_or_canceled_by_the_same_rules(session: Session) -> None:
    [last], [asked] = leased(session, max_attempts=1), leased(session)
    session.cancel(asked.id)
    session.rows("delete from wherry.lease")

    session.call(ReapOrphans())

    reaped = session.reap()
    assert (reaped.dead, reaped.canceled) == ((last.id,), (asked.id,))


def test_a_stored_policy_that_makes_no_sense_harms_nobody(session: Session) -> None:
    ids = [lease.id for lease in leased(session, 3)]
    session.rows('update wherry.live set retry = \'{"kind": "\\u0000"}\' where id = %s', ids[1])
    session.rows("delete from wherry.lease")

    session.call(ReapOrphans())

    assert sorted(session.reap().queued) == ids
