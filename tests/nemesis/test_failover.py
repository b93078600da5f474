"""A primary is lost, and its synchronous standby takes over."""

from __future__ import annotations

from tests.nemesis.failover import fail_over


def test_nothing_acknowledged_is_lost_when_a_standby_takes_over() -> None:
    found = fail_over(1, seed=1)

    assert found.broken == {}
    assert found.counted["bulk: tasks"] > 0
