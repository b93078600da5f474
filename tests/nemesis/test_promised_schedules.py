"""Times of a schedule that are forgotten, seen to twice or miscounted are complained of."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.nemesis.evidence import Evidence
from tests.nemesis.promised_schedules import every_time_is_seen_to, one_task_for_each_time

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(second: float) -> str:
    return (BEGAN + timedelta(seconds=second)).isoformat()


def tick(first: int, last: int | None = None, outcome: str = "missed", **more: Any) -> Any:
    last = first if last is None else last
    row = {"schedule": "all", "planned_at": at(first), "until_at": at(last), "n": last - first + 1}
    return row | {"outcome": outcome, "by_hand": False, "task_id": None} | more


def evidence(*ticks: Any, **counts: int) -> Evidence:
    schedule = {"name": "all", "created_at": at(0.4), "last_at": ticks[-1]["until_at"]}
    columns = ("fired", "missed_ticks", "overlapped", "paused_ticks", "by_hand_runs")
    schedules = [schedule | dict.fromkeys(columns, 0) | counts]
    return Evidence({}, [], [], [], {}, [], {}, schedules, list(ticks), [], Counter(), [], "")


def test_each_time_once_is_what_is_wanted() -> None:
    whole = evidence(tick(1), tick(2, 5), tick(6, outcome="paused"), missed_ticks=5, paused_ticks=1)

    assert list(every_time_is_seen_to(whole)) == []


@pytest.mark.parametrize(
    ("ticks", "counted"),
    [
        ([tick(3, 6)], 4),
        ([tick(1), tick(3, 6)], 5),
        ([tick(1, 2), tick(2, 4)], 5),
        ([tick(1, 5, n=4)], 4),
        ([tick(1), tick(2, 5)], 6),
    ],
    ids=["late", "gap", "twice", "few", "miscounted"],
)
def test_a_time_that_is_not_there_once_is_complained_of(ticks: list[Any], counted: int) -> None:
    assert len(list(every_time_is_seen_to(evidence(*ticks, missed_ticks=counted)))) == 1


def test_a_time_that_fired_has_a_task() -> None:
    [told] = one_task_for_each_time(evidence(tick(1, outcome="fired", task_id=7), fired=1))

    assert "says task 7" in told
    assert "there is none" in told
