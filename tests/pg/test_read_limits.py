"""The limits of queues are read for metrics: so many of them, and whether their rate is used up."""

from __future__ import annotations

from tests.pg.limited import limit
from tests.pg.support import Session
from wherry.commands.queues import ReadLimits
from wherry.domain.limits import LimitSeen, LimitsSeen


def test_limits_are_read_with_what_their_rate_allows_now(session: Session) -> None:
    limit(session, "b", max_running=7, rate=2, per=10, burst=1)
    limit(session, "a", max_running=3)
    limit(session, "c", rate=100)

    def read(most: int = 10) -> LimitsSeen:
        return session.call(ReadLimits(most))

    assert read().limits == (
        LimitSeen("a", 3, None, None),
        LimitSeen("b", 7, 0.2, False),
        LimitSeen("c", None, 100.0, False),
    )
    session.rows("update wherry.limited set credit = 0, noted_at = wherry.now() where queue = 'b'")
    assert read(2) == LimitsSeen((LimitSeen("a", 3, None, None), LimitSeen("b", 7, 0.2, True)), 3)
    session.rows("delete from wherry.limited")
    assert read() == LimitsSeen((), 0)
