"""Two tasks of one lease, whose row is split, closed and reaped from two sides at once.

The lease's row is all that the two share, so whatever one side does must leave the other its part:
a leased task has exactly one lease row, and nobody is told that a lease is lost which holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.pg.support import spec
from tests.race.invariants import After, look
from tests.race.player import FINE, Operation, Outcome, Player, merges
from tests.race.scenes import FAILURE, Scene, set_up
from wherry.commands.base import Command
from wherry.commands.leases import (
    CompleteTasks,
    FailTasks,
    GiveBackTasks,
    HeartbeatLeases,
    LeaseTasks,
)
from wherry.commands.maintenance import ReapLeases
from wherry.commands.tasks import EnqueueTasks
from wherry.domain.lease import Lease, Reported
from wherry.domain.outcome import Completed, Failed, GivenBack

ORDERS = list(merges([len(FINE)] * 2))
ACCEPTED = (Reported.DONE, Reported.REQUEUED)


def closed(lease: Lease) -> tuple[str, ...]:
    return (lease.lease_id,)


# What one side does with its own task; each says that the lease has nothing left to report.
SIDES: dict[str, Callable[[Lease], Command[Any]]] = {
    "heartbeat": lambda lease: HeartbeatLeases((lease,), 7200.0),
    "complete": lambda lease: CompleteTasks((Completed(lease),), closed(lease)),
    "fail": lambda lease: FailTasks((Failed(lease, "retry", FAILURE, 60.0),), closed(lease)),
    "release": lambda lease: GiveBackTasks((GivenBack(lease, "release"),), closed(lease)),
}


def side(name: str, lease: Lease) -> Operation:
    return Operation(name, lambda _: SIDES[name](lease))


async def two_of_one_lease(player: Player) -> tuple[Scene, list[Lease]]:
    scene = await set_up(player.admin, "ready")
    await scene.sql("delete from wherry.live")
    two = tuple(spec(queue=scene.queue, ttl=86_400) for _ in range(2))
    await scene.ask(EnqueueTasks(two))
    leases = await scene.ask(LeaseTasks(queue=scene.queue, worker="w", limit=2))
    return scene, leases


def broken(
    leases: list[Lease], names: tuple[str, str], outcomes: list[Outcome[Any]], after: After
) -> list[str]:
    found = []
    for lease, name, outcome in zip(leases, names, outcomes, strict=True):
        [answer] = outcome.answer
        is_leased = any(row["id"] == lease.id and row["state"] == "leased" for row in after.live)
        owners = sum(lease.id in row["task_ids"] for row in after.lease)
        if is_leased and owners != 1:
            found.append(f"a leased task has {owners} lease rows")
        if is_leased is (answer in ACCEPTED):
            found.append(f"{name} was answered {answer}, and leased is {is_leased}")
        if answer is Reported.LOST:
            found.append(f"{name} was told that its lease is lost")
    return found


@pytest.mark.parametrize("names", list(itertools.product(SIDES, repeat=2)), ids=" | ".join)
async def test_what_one_side_does_leaves_the_other_its_part(
    player: Player, names: tuple[str, str]
) -> None:
    found: list[str] = []
    for order in ORDERS:
        scene, leases = await two_of_one_lease(player)
        operations = [side(name, lease) for name, lease in zip(names, leases, strict=True)]

        outcomes = await player.play(scene, operations, order)

        after = await look(scene)
        found += [f"in order {order}: {said}" for said in broken(leases, names, outcomes, after)]
    assert found == []


@pytest.mark.parametrize("name", SIDES)
async def test_a_reaper_takes_the_part_that_ran_out_and_no_other(player: Player, name: str) -> None:
    found: list[str] = []
    for order in ORDERS:
        scene, [mine, lost] = await two_of_one_lease(player)
        await scene.ask(HeartbeatLeases((mine,), 7200.0))
        await scene.sql(
            "update wherry.lease set expires_at = statement_timestamp() where %s = any(task_ids)",
            lost.id,
        )
        operations = [
            side(name, mine),
            Operation("reap", lambda _: ReapLeases(10)),
        ]

        ours, theirs = await player.play(scene, operations, order)

        if ours.answer == [Reported.LOST]:
            found.append(f"in order {order}: {name} lost its lease to the mate's")
        if theirs.answer.queued != (lost.id,):
            found.append(f"in order {order}: the reaper took {theirs.answer.queued}")
    assert found == []
