"""What somebody who watches sees first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from wherry.domain.task import PausedType, QueueDepth
from wherry.domain.top import Look, changes, problems_in
from wherry.domain.worker import Directive, WorkerSeen

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CALM = QueueDepth("mail", ready=3, delayed=2, parked=0, leased=1, oldest_due_seconds=1.0)
WORKER = WorkerSeen("1", "box", "h", 1, None, None, NOW, NOW, alive=True, directive=Directive.NONE)


def problems(*queues: QueueDepth, workers: tuple[WorkerSeen, ...] = (WORKER,)) -> list[str]:
    return problems_in(Look(0.0, queues, workers))


def test_where_all_is_well_nothing_is_said() -> None:
    assert problems(CALM) == []
    assert problems() == []


def test_what_is_wrong_is_said_the_largest_first() -> None:
    late = replace(CALM, queue="late", ready=9, oldest_due_seconds=600.0)
    paused = replace(CALM, queue="paused", ready=7, paused_at=NOW, pause_reason="a flood")
    parked = replace(CALM, queue="parked", parked=5)

    said = problems(parked, paused, late)

    assert ["late is behind" in said[0], "a flood" in said[1], "knows" in said[2]] == [True] * 3


def test_a_type_that_is_paused_is_not_called_unknown() -> None:
    parked = replace(CALM, parked=5)

    def said(*paused: tuple[str, str | None]) -> list[str]:
        types = tuple(PausedType(type, queue, NOW, None, None) for type, queue in paused)
        return problems_in(Look(0.0, (parked,), (WORKER,), types))

    unknown = "that no live worker knows"
    assert said(("report", "other")) == [f"queue mail has 5 of types {unknown}"]
    assert said(("report", None), ("report", "mail")) == [
        f"queue mail has 5 of types that are paused (report) or {unknown}"
    ]
    many = said(*((name, "mail") for name in "abcde"))
    assert many == [f"queue mail has 5 of types that are paused (a, b, c, 2 more) or {unknown}"]


def test_a_queue_that_nobody_serves_is_said() -> None:
    elsewhere = replace(WORKER, queues=("other",))

    assert "no live worker serves it" in problems(CALM, workers=(elsewhere,))[0]
    silent = replace(WORKER, alive=False)
    assert ["serves" in problems(CALM, workers=(silent,))[0]] == [True]
    assert "fell silent" in problems(workers=(silent,))[0]
    # One that was started again under its name has not fallen silent.
    assert problems(workers=(silent, replace(WORKER, instance="2"))) == []
    assert "drain" in problems(workers=(replace(WORKER, directive=Directive.DRAIN),))[0]


def test_a_worker_that_hears_no_notification_is_said_after_a_minute() -> None:
    lately = replace(WORKER, deaf_since=NOW - timedelta(seconds=50))
    long = replace(WORKER, deaf_since=NOW - timedelta(minutes=5))

    assert problems(workers=(lately,)) == []
    assert problems(workers=(long,)) == [
        "worker box has heard no notification for 5 min, and only polls"
    ]


def test_a_change_is_told_by_the_second() -> None:
    def look(at: float, **depth: Any) -> Look:
        return Look(at, (replace(CALM, **depth),), ())

    assert changes(None, look(1.0)) == {}
    assert changes(look(1.0), look(3.0, ready=7)) == {"mail": 2.0}
    assert changes(look(1.0), Look(3.0, (), ())) == {"mail": -3.0}
    assert changes(look(1.0), look(1.0)) == {}
