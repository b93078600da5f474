"""What came and ended is told by queue or by type, minute by minute, with how long it took."""

from __future__ import annotations

import pytest

from tests.pg.support import Session
from wherry.commands.lines import ReadLines


def tally(session: Session, *rows: tuple[int, str, str, str, int, int]) -> None:
    """Add sums: minutes back, queue, type, kind, bucket, n."""
    for back, queue, type_, kind, bucket, n in rows:
        session.connection.execute(
            "insert into wherry.pair (queue, type) values (%s, %s) on conflict do nothing",
            [queue, type_],
        )
        session.connection.execute(
            "insert into wherry.tally (step, at, pair, kind, bucket, n, seconds)"
            " select 'minute', date_trunc('minute', wherry.now()) - %s * interval '1 minute',"
            " pair.id, %s, %s, %s, 0.5 from wherry.pair where queue = %s and type = %s",
            [back, kind, bucket, n, queue, type_],
        )


def test_what_came_and_ended_is_told_by_queue(session: Session) -> None:
    tally(
        session,
        (0, "mail", "send", "enqueued", 0, 7),
        (0, "mail", "greet", "requeued", 0, 1),
        (2, "mail", "send", "succeeded", 0, 5),
        (2, "images", "resize", "dead", 0, 2),
        (2, "images", "resize", "failed", 0, 1),
        (9, "mail", "send", "enqueued", 0, 100),
    )

    found = session.call(ReadLines(seconds=300, points=5))

    assert found.width_seconds == 60
    assert [point.came for point in found.lines["mail"].points] == [0, 0, 0, 0, 8]
    assert [point.succeeded for point in found.lines["mail"].points] == [0, 0, 5, 0, 0]
    assert [point.bad for point in found.lines["images"].points] == [0, 0, 3, 0, 0]


def test_what_came_is_told_by_type_of_one_queue(session: Session) -> None:
    tally(
        session,
        (0, "mail", "send", "enqueued", 0, 7),
        (0, "mail", "greet", "enqueued", 0, 1),
        (0, "images", "send", "enqueued", 0, 50),
    )

    found = session.call(ReadLines(seconds=60, points=1, by_type=True, queues=("mail",)))

    assert {name: line.points[-1].came for name, line in found.lines.items()} == {
        "send": 7,
        "greet": 1,
    }


def test_how_long_it_took_is_told_for_the_whole_time(session: Session) -> None:
    tally(
        session,
        (0, "mail", "send", "wait", 2, 3),
        (1, "mail", "send", "wait", 2, 1),
        (1, "mail", "send", "run", 4, 6),
    )

    found = session.call(ReadLines(seconds=300, points=5))

    assert found.lines["mail"].wait.count == 4
    assert found.lines["mail"].wait.seconds == 1.0
    assert found.lines["mail"].run.counts[4] == 6


def test_an_empty_database_has_no_lines(session: Session) -> None:
    assert session.call(ReadLines(seconds=300, points=5)).lines == {}


def test_more_than_the_minutes_that_are_kept_is_refused(session: Session) -> None:
    with pytest.raises(ValueError, match="two days"):
        session.call(ReadLines(seconds=3 * 86_400, points=5))
