"""What made others lose tasks, or promote none, because of one row among many.

Wherry has no unique constraint on tasks: keys stand in a table of their own, which promotion never
touches. So the conflict has to be made by hand here.
"""

from __future__ import annotations

from tests.pg.support import Session, spec
from wherry.domain.state import State
from wherry.testing import Clock


def test_two_tasks_with_one_key_that_become_due_together_stop_no_promotion(
    session: Session, clock: Clock
) -> None:
    """LOST-13, IDM-07: one waits for its retry, one was delayed, and 500 others are due, too."""
    first = session.enqueue(key="k")
    session.fail(session.lease_one(), after=60)
    # No call of ours gives a key away while its task lives.
    session.rows("delete from wherry.key")
    second = session.enqueue(key="k", delay=60)
    others = session.enqueue_many(*(spec(queue=f"q{n % 5}", delay=60) for n in range(500)))
    clock.advance(seconds=61)

    promoted = session.promote().promoted

    assert promoted == 502
    ids = [lease.id for n in range(5) for lease in session.lease(200, queue=f"q{n}")]
    assert sorted(ids) == [other.id for other in others]
    for lease in session.lease(2):
        session.complete(lease)
    assert (session.task(first).state, session.task(first).attempts) == (State.SUCCEEDED, 2)
    assert session.task(second).state is State.SUCCEEDED
