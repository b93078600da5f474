"""What has been summed up is read by points of time, by queue and type, and as totals."""

from __future__ import annotations

from datetime import timedelta

from tests.pg.support import Session
from wherry.commands.flow import CountStates, ReadFlow, ReadTotals


def test_an_empty_database_has_a_line_of_empty_points(session: Session) -> None:
    flow = session.call(ReadFlow(seconds=3600, points=60))

    assert len(flow.points) == 60
    steps = {b.at - a.at for a, b in zip(flow.points, flow.points[1:], strict=False)}
    assert steps == {timedelta(minutes=1)}
    assert {n for point in flow.points for n in point.counts.values()} == {0}
    assert flow.tallied_seconds is None


def test_an_empty_database_has_no_counts(session: Session) -> None:
    assert session.call(CountStates()).counts == ()
    assert session.call(ReadTotals()).totals == ()
