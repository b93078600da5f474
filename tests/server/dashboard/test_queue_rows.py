"""A queue's one word says the worst there is to say of it, and the worst queues come first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from wherry.domain.task import QueueDepth
from wherry.server.dashboard.pages.queues import row_of, rows_of

EMPTY = QueueDepth("mail", 0, 0, 0, 0, None)
PARKED = replace(EMPTY, parked=3)


@pytest.mark.parametrize(
    ("depth", "state", "text"),
    [
        (EMPTY, "idle", "Quiet"),
        (replace(EMPTY, delayed=5), "idle", "Quiet"),
        (PARKED, "warn", "Unknown types"),
        (replace(PARKED, leased=1), "busy", "Working"),
        (replace(EMPTY, ready=2, oldest_due_seconds=1.0), "busy", "Waiting"),
        (replace(PARKED, ready=2, oldest_due_seconds=4000.0), "bad", "Far behind"),
        (replace(PARKED, paused_at=datetime.now(UTC)), "paused", "Paused"),
    ],
)
def test_a_queue_is_judged_by_what_it_holds(depth: QueueDepth, state: str, text: str) -> None:
    row = row_of(depth)

    assert (row.state, row.state_text) == (state, text)


def test_what_nobody_can_run_stands_before_what_is_worked_on() -> None:
    rows = rows_of([replace(EMPTY, queue="a", leased=1), replace(PARKED, queue="b")])

    assert [row.depth.queue for row in rows] == ["b", "a"]
