"""What made all instances of others come at the same moment: everything periodic is jittered."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.worker.fake import FakeTransport
from wherry.commands.maintenance import MakeDays
from wherry.commands.workers import TransactionsEnded
from wherry.maintenance.service import Maintenance
from wherry.transport.patience import Patience
from wherry.worker.wakeups import Wakeups

MANY = 200


def assert_spread(seconds: list[float], *, least: float, most: float) -> None:
    """No twentieth of the window holds many more than its share."""
    assert min(seconds) >= least
    assert max(seconds) <= most
    slices = Counter(int((each - least) / (most - least) * 20) for each in seconds)
    assert len(slices) >= 15
    assert max(slices.values()) < len(seconds) * 0.15


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each wait was meant to be; none of them takes any time."""
    asked: list[float] = []
    timeout = asyncio.timeout

    def recorded(delay: float | None) -> Any:
        asked.append(delay or 0.0)
        return timeout(0)

    monkeypatch.setattr(asyncio, "timeout", recorded)
    return asked


@pytest.mark.parametrize("listening", [True, False])
async def test_idle_workers_do_not_poll_in_step(limits: list[float], listening: bool) -> None:
    """RET-04."""
    transport = FakeTransport({TransactionsEnded: lambda _: True})
    for _ in range(MANY):
        wakeups = Wakeups(
            transport,
            instance="00000000-0000-0000-0000-000000000000",
            queues=("default",),
            poll_seconds=1.0,
            poll_seconds_listening=1.0,
            is_listening=lambda: listening,
        )
        before = len(limits)
        while len(limits) == before or limits[-1] < 0.5:
            await wakeups.pause()

    assert_spread([each for each in limits if each >= 0.5], least=0.8, most=1.0)


async def test_maintenance_of_many_instances_is_not_in_step(limits: list[float]) -> None:
    """RET-04: reapers that started at the same moment."""
    for _ in range(MANY):
        maintenance = Maintenance(
            FakeTransport({MakeDays: lambda _: 0}),
            look_seconds=lambda: 1.0,
            queues=("default",),
            found_work=lambda: None,
        )
        await maintenance._tick()

    # What is late on a busy machine waits for less.
    assert_spread([max(0.8, each) for each in limits], least=0.8, most=1.0)


def test_those_who_lost_the_database_do_not_come_back_in_step() -> None:
    """RET-04: and less and less often."""
    patiences = [Patience() for _ in range(MANY)]

    pauses = [[patience.next_pause() for patience in patiences] for _ in range(10)]

    for longest, seconds in zip([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5], pauses, strict=True):
        assert_spread(seconds, least=longest / 2, most=longest)
