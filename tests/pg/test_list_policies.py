"""What a server needs to know of a lease to compute the delay of a retry."""

from __future__ import annotations

import json

from tests.pg.support import Session
from wherry import Fixed
from wherry.commands.leases import ListPolicies
from wherry.domain.lease import LeaseRef


def test_a_lease_is_answered_with_its_attempt_and_the_stored_policy(session: Session) -> None:
    plain, own = session.enqueue(), session.enqueue(retry=Fixed(delay=7))
    first = session.lease_one()
    session.fail(first)
    leases = {lease.id: lease for lease in session.lease(2)}

    own_answer, plain_answer = session.call(ListPolicies((leases[own], leases[plain])))

    assert plain_answer == (2, None)
    assert own_answer is not None
    assert own_answer[0] == 1
    assert json.loads(own_answer[1] or "")["delay"] == 7


def test_a_lease_that_is_gone_is_none_and_so_is_a_forged_one(session: Session) -> None:
    session.enqueue()
    lease = session.lease_one()
    forged = LeaseRef(0.0, lease.id, lease.queue, lease.token + 1, lease.lease_id)
    elsewhere = LeaseRef(0.0, lease.id, "other", lease.token, lease.lease_id)

    assert session.call(ListPolicies((forged, lease, elsewhere))) == [None, (1, None), None]

    session.release(lease)
    assert session.call(ListPolicies((lease,))) == [None]
    assert session.call(ListPolicies(())) == []
