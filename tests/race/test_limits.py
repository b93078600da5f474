"""No order of the steps of two who lease from a limited queue, or settle there, exceeds its limits.

A lease stops before it asks for room, so that whole transactions of others fit between its snapshot
and its look at what runs. What must hold is watched by PostgreSQL at each commit: a trigger counts
what is leased by then.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, count
from typing import Any

import psycopg
import pytest

from tests.pg.support import spec
from tests.race.player import FINE, Player, merges
from tests.race.scenes import LEASED_FOR_SECONDS, OPERATIONS, Scene
from wherry.commands.leases import LeaseTasks
from wherry.commands.queues import SetQueueLimits
from wherry.commands.tasks import EnqueueTasks
from wherry.domain.limits import QueueLimits

ORDERS = list(merges([len(FINE)] * 2))
NUMBERS = count()
MOST = 2
LEASES = ("lease", "lease_past_front", "lease_for_pollers")
ENDS = ("complete", "complete_in_transaction", "fail", "release", "reap")
PAIRS = [
    pair
    for pair in combinations_with_replacement((*LEASES, *ENDS), 2)
    if any(name in LEASES for name in pair)
]

# A gate before the lock; and whoever waits for it waits as long as it takes, so that no order ends
# for want of time.
GATED = """
create or replace function wherry.room_in(queue text) returns integer
    language plpgsql
    as $$
begin
    perform wherry.now();
    return wherry.room_behind_the_gate(queue);
end
$$
"""
WATCH = """
create function wherry.watch() returns trigger
    language plpgsql
    as $$
begin
    if new.state = 'leased'
       and (select count(*) from wherry.live where queue = new.queue and state = 'leased')
           > (select max_running from wherry.limited where queue = new.queue) then
        raise 'more are leased than may be';
    end if;
    return null;
end
$$
"""
WATCHED = """
create constraint trigger watch after update on wherry.live
    deferrable initially deferred
    for each row execute function wherry.watch()
"""


@pytest.fixture
async def gated(player: Player) -> Player:
    """The actors, for whom a gate stands before the lock of a queue's limits."""
    [[text, is_new]] = await (
        await player.admin.execute(
            "select pg_get_functiondef('wherry.room_in(text)'::regprocedure),"
            " to_regproc('wherry.room_behind_the_gate') is null"
        )
    ).fetchall()
    if is_new:
        behind = text.replace("room_in", "room_behind_the_gate").replace("'250ms'", "'60s'")
        assert "'60s'" in behind
        for statement in (behind, GATED, WATCH, WATCHED):
            await player.admin.execute(statement.encode())
    return player


async def limited(player: Player, limits: QueueLimits) -> Scene:
    """Return a queue with limits in which one task is leased, and five are ready."""
    scene = Scene(player.admin, queue=f"limited{next(NUMBERS)}")
    await scene.sql("with l as (delete from wherry.live) delete from wherry.lease")
    await scene.ask(SetQueueLimits(scene.queue, limits))
    specs = tuple(spec(queue=scene.queue) for _ in range(6))
    await scene.ask(EnqueueTasks(specs))
    [scene.lease] = await scene.ask(
        LeaseTasks(queue=scene.queue, worker="w", lease_seconds=LEASED_FOR_SECONDS)
    )
    scene.task = scene.held.id
    return scene


def leased_by(name: str, answer: Any) -> int:
    """Return how many tasks an operation has leased."""
    if name == "lease_for_pollers":
        return sum(map(len, answer))
    return len(answer) if name in LEASES else 0


@pytest.mark.parametrize("pair", PAIRS, ids=" | ".join)
async def test_no_order_exceeds_what_may_run_at_once(gated: Player, pair: tuple[str, str]) -> None:
    for order in ORDERS:
        scene = await limited(gated, QueueLimits(MOST))
        if "reap" in pair:
            await scene.sql("update wherry.lease set expires_at = statement_timestamp()")

        outcomes = await gated.play(scene, [OPERATIONS[name] for name in pair], order)

        [[running]] = await scene.sql("select count(*) from wherry.live where state = 'leased'")
        got = sum(leased_by(outcome.name, outcome.answer) for outcome in outcomes)
        assert running <= MOST, order
        if set(pair) <= set(LEASES):
            # And none of the room is left unused.
            assert (got, running) == (MOST - 1, MOST), order
        else:
            assert got >= 1, order


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if set(pair) <= set(LEASES)], ids=" | ".join
)
async def test_no_order_exceeds_what_may_start(gated: Player, pair: tuple[str, str]) -> None:
    for order in ORDERS:
        scene = await limited(gated, QueueLimits(None, 1, 86_400.0, 2))

        outcomes = await gated.play(scene, [OPERATIONS[name] for name in pair], order)

        assert sum(leased_by(outcome.name, outcome.answer) for outcome in outcomes) == 1, order
        [[credit]] = await scene.sql(
            "select credit from wherry.limited where queue = %s", scene.queue
        )
        assert 0 <= credit < 0.1, order


async def test_without_the_lock_an_order_is_found_that_exceeds_them(gated: Player) -> None:
    """What is played here must be able to fail."""
    [[text]] = await (
        await gated.admin.execute(
            "select pg_get_functiondef('wherry.room_behind_the_gate(text)'::regprocedure)"
        )
    ).fetchall()
    await gated.admin.execute(
        text.replace("for update skip locked", "").replace("for update;", ";").encode()
    )
    found = 0
    try:
        for order in ORDERS:
            scene = await limited(gated, QueueLimits(MOST))
            try:
                await gated.play(scene, [OPERATIONS["lease"]] * 2, order)
            except psycopg.errors.RaiseException:
                found += 1
                for actor in gated.actors:
                    await actor.connection.execute("rollback")
    finally:
        await gated.admin.execute(text.encode())
    assert found
