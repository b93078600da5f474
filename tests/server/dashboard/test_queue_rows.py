"""A queue's one word says the worst there is to say of it, and the worst queues come first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from wherry.domain.flow import StateCount
from wherry.domain.task import PausedType, QueueDepth
from wherry.server.dashboard.pages.queues import row_of, rows_of
from wherry.server.dashboard.pauses import TypePauses

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
    row = row_of(depth, TypePauses())

    assert (row.state, row.state_text) == (state, text)


def test_what_nobody_can_run_stands_before_what_is_worked_on() -> None:
    rows = rows_of([replace(EMPTY, queue="a", leased=1), replace(PARKED, queue="b")], TypePauses())

    assert [row.depth.queue for row in rows] == ["b", "a"]


NOW = datetime.now(UTC)
EVERYWHERE = PausedType("send", None, NOW, "ada", None)
HERE = PausedType("send", "mail", NOW, "ada", None)
ELSEWHERE = PausedType("send", "other", NOW, "ada", None)


@pytest.mark.parametrize(
    ("pauses", "counts", "state", "unknown"),
    [
        ((), (StateCount("mail", "send", 3, 0, 3),), "Unknown types", 3),
        ((EVERYWHERE,), (StateCount("mail", "send", 3, 0, 3),), "Types paused", 0),
        ((HERE,), (StateCount("mail", "send", 3, 0, 3),), "Types paused", 0),
        ((ELSEWHERE,), (StateCount("mail", "send", 3, 0, 3),), "Unknown types", 3),
        # Of a type that nobody knows there are two besides.
        (
            (HERE,),
            (StateCount("mail", "send", 1, 0, 1), StateCount("mail", "x", 2, 0, 2)),
            "Unknown types",
            2,
        ),
        # They were not summed up yet.
        ((HERE,), (), "Types paused", 0),
        # It holds no task of the type that is paused everywhere.
        ((EVERYWHERE,), (StateCount("mail", "x", 3, 0, 3),), "Unknown types", 3),
    ],
)
def test_what_is_set_aside_for_a_pause_is_not_called_unknown(
    pauses: tuple[PausedType, ...], counts: tuple[StateCount, ...], state: str, unknown: int
) -> None:
    row = row_of(PARKED, TypePauses(pauses, counts))

    assert (row.state_text, row.unknown) == (state, unknown)
