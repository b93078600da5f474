"""Queues and workers come back from the wire as they went in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.wire.made import AT
from wherry.domain.task import QueueDepth
from wherry.domain.worker import Directive, WorkerSeen
from wherry.wire import operators


@pytest.mark.parametrize(
    "pause",
    [
        {},
        {"paused_at": AT},
        {"paused_at": AT, "paused_by": "ops", "pause_reason": "the mail server is down"},
    ],
)
def test_a_queue_comes_back_equal(pause: dict[str, Any]) -> None:
    depth = QueueDepth("mail", 1, 2, 3, 4, 5.5, **pause)

    assert operators.read_queue(operators.write_queue(depth)) == depth


def test_a_queue_with_nothing_due_has_no_oldest_task() -> None:
    depth = QueueDepth("mail", 0, 2, 3, 4, None)

    assert operators.read_queue(operators.write_queue(depth)) == depth


@pytest.mark.parametrize("directive", Directive)
@pytest.mark.parametrize("served", [None, ("mail", "images")])
def test_a_worker_comes_back_equal(directive: Directive, served: tuple[str, ...] | None) -> None:
    seen = WorkerSeen("i", "w", "h", None, served, served, AT, AT, True, directive)

    assert operators.read_worker(operators.write_worker(seen)) == seen
    told = replace(seen, slots=20, version="0.1.0", memory_bytes=3 * 2**32, deaf_since=AT)
    assert operators.read_worker(operators.write_worker(told)) == told
