"""How often a process that has nothing to do sends each statement, and whether it keeps to that.

No count of a few seconds tells what a minute costs: most statements come every few seconds, some
once a minute, and now and then they come together. So each is held to a rhythm of its own, and the
promise to the sum of the rhythms. A slow machine only makes the times between two longer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.facts import await_for
from tests.statements import Sent


@dataclass(frozen=True)
class Rhythm:
    """The least seconds between two of a kind, and the usual ones."""

    least: float
    usual: float


def jittered(seconds: float, *, least: float = 0.8) -> Rhythm:
    """What comes after *seconds*, or a little sooner, so that many do not keep step."""
    return Rhythm(seconds * least, seconds * (least + 1) / 2)


MAINTENANCE = {
    "maintenance/look_around": jittered(4),
    # Due 4 s later, which every second look finds; a look that is late may find it at once.
    "flow/rest_chore": Rhythm(4, 7.2),
    "maintenance/catch_up_ids": jittered(30),
    "maintenance/put_off_searches": jittered(30),
    "maintenance/reap_orphans": jittered(60),
    "maintenance/drop_past_days": jittered(60),
}
WORKER = MAINTENANCE | {
    "leases/lease_tasks": jittered(5),
    # The mark of who waits is renewed at the first poll after half its time.
    "workers/wait_for_tasks": Rhythm(15, 17),
    "workers/beat_workers": Rhythm(20, 20),
}
# Without notifications it looks for both every second.
POLLING = WORKER | {
    "maintenance/look_around": jittered(1),
    "flow/rest_chore": Rhythm(4, 4.5),
    "leases/lease_tasks": jittered(1),
}
SERVER = MAINTENANCE | {
    "queues/list_ready_queues": jittered(5),
    "workers/wait_for_tasks": Rhythm(15, 17),
    "workers/beat_workers": jittered(18, least=0.85),
}


def a_second(rhythms: Mapping[str, Rhythm]) -> float:
    """Return how many statements that is a second."""
    return sum(1 / rhythm.usual for rhythm in rhythms.values())


def too_often(
    names: Sequence[str], rhythms: Mapping[str, Rhythm], *, seconds: float
) -> dict[str, int]:
    """Return what was sent in *seconds* more often than its rhythm allows, or has none."""
    return {
        name: times
        for name, times in Counter(names).items()
        if name not in rhythms or times > seconds / rhythms[name].least + 1
    }


async def while_idle(
    sent: Sent, *, after: Sequence[str] = ("look_around", "promote_tasks")
) -> tuple[list[str], float]:
    """Return what is sent in three looks of maintenance, and how many seconds that took."""
    # What is done once at the start comes before the first look, and a promotion with the listener.
    for first in after:
        await await_for(partial(sent.count, f"maintenance/{first}"), seconds=60)
    sent.clear()
    began = time.monotonic()
    await await_for(lambda: sent.count("maintenance/look_around") >= 3, seconds=60)
    return list(sent.names), time.monotonic() - began


def nothing_is_due(connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Put off what comes every few minutes, and what only a lease that took long brings about."""
    connection.execute(
        "update wherry.chore set due_at = wherry.now() + interval '1 hour' where name = 'recount'"
    )
    connection.execute("update wherry.chore set folded_until = wherry.now() where name = 'roll'")
    monkeypatch.setattr("wherry.domain.cursor._LONG_SECONDS", float("inf"))
