"""The operations that race, and the states in which they find the one task that all of them want.

In every scene somebody holds, or once held, a lease on the task: the operations of a worker use it,
so that where it is stale they must be refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg

from tests.pg.support import spec
from tests.race.player import Operation
from wherry.commands.base import Command
from wherry.commands.fronts import RescueTasks
from wherry.commands.leases import (
    CompleteInTransaction,
    CompleteTasks,
    FailTasks,
    GiveBackTasks,
    HeartbeatLeases,
    LeaseForPollers,
    LeaseTasks,
    ReleaseUnconfirmed,
)
from wherry.commands.maintenance import DiscardTasks, PromoteTasks, ReapLeases
from wherry.commands.tasks import CancelTasks, EnqueueTasks, PurgeTasks, RequeueTasks
from wherry.domain.failure import Failure
from wherry.domain.front import Front, Stretch
from wherry.domain.lease import Lease, Poller
from wherry.domain.options import HIGHEST_PRIORITY, LOWEST_PRIORITY
from wherry.domain.outcome import Completed, Failed, GivenBack
from wherry.errors import LeaseLost
from wherry.transport.base import arun

FAILURE = Failure("E", "m", "")
LEASED_FOR_SECONDS = 3600.0
_numbers = itertools.count(1)


@dataclass
class Scene:
    """One task in a queue of its own, and what is known of it before anybody moves."""

    admin: psycopg.AsyncConnection[Any]
    queue: str
    task: int = 0
    lease: Lease | None = None
    is_final: bool = False
    attempts: int = 0
    token: int = 0
    history: int = 0
    # The lease is the task's present one; it has run out, which only the reaper may act on.
    holds: bool = False
    has_run_out: bool = False
    # Where the queue's ready tasks begin, as far as somebody knows.
    front: Front = field(default_factory=Front)

    async def ask(self, command: Command[Any]) -> Any:
        return await arun(self.admin, command, schema="wherry")

    async def sql(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        cursor = await self.admin.execute(statement.encode(), params or None)
        return await cursor.fetchall() if cursor.description else []

    @property
    def held(self) -> Lease:
        assert self.lease is not None
        return self.lease


def lease_command(scene: Scene) -> LeaseTasks:
    return LeaseTasks(queue=scene.queue, worker="racer", lease_seconds=LEASED_FOR_SECONDS)


OPERATIONS = {
    each.name: each
    for each in (
        Operation("lease", lease_command),
        Operation(
            "lease_past_front",
            lambda scene: replace(lease_command(scene), front=scene.front),
        ),
        Operation(
            "lease_for_pollers",
            lambda scene: LeaseForPollers(
                scene.queue,
                None,
                tuple(Poller(f"poller-{n}", 2, None, LEASED_FOR_SECONDS) for n in range(3)),
            ),
        ),
        Operation("complete", lambda scene: CompleteTasks((Completed(scene.held),))),
        Operation(
            "complete_unlocked",
            lambda scene: CompleteTasks((Completed(scene.held),)).after_conflict(),
        ),
        Operation(
            "complete_in_transaction",
            lambda scene: CompleteInTransaction(Completed(scene.held)),
            refusals=(LeaseLost,),
        ),
        Operation("fail", lambda scene: FailTasks((Failed(scene.held, "retry", FAILURE),))),
        Operation("heartbeat", lambda scene: HeartbeatLeases((scene.held,), 7200.0)),
        Operation("reap", lambda _: ReapLeases(10)),
        Operation("cancel", lambda scene: CancelTasks((scene.task,))),
        Operation("release", lambda scene: GiveBackTasks((GivenBack(scene.held, "release"),))),
        Operation(
            "release_unconfirmed",
            lambda scene: ReleaseUnconfirmed((scene.held,), (LEASED_FOR_SECONDS,)),
        ),
        Operation("requeue", lambda scene: RequeueTasks((scene.task,))),
        Operation(
            "enqueue",
            lambda scene: EnqueueTasks((spec(queue=scene.queue, key="k", key_ttl=0),)),
        ),
        Operation(
            "enqueue_rolled_back",
            lambda scene: EnqueueTasks((spec(queue=scene.queue, key="k", key_ttl=0),)),
            commits=False,
        ),
        Operation(
            "enqueue_one", lambda scene: EnqueueTasks((spec(queue=scene.queue, ttl=86_400),))
        ),
        Operation("rescue", lambda _: RescueTasks(10)),
        Operation("promote", lambda _: PromoteTasks(10)),
        Operation("purge", lambda scene: PurgeTasks((scene.task,))),
        Operation("discard", lambda _: DiscardTasks(10)),
    )
}


async def ready(scene: Scene) -> None:
    await leased(scene)
    await scene.ask(GiveBackTasks((GivenBack(scene.held, "release"),)))
    scene.attempts, scene.holds = 0, False


async def leased(scene: Scene, **options: Any) -> None:
    # A time to live far away makes the lease statement look at the clock, which is its gate.
    given = {"queue": scene.queue, "key": "k", "key_ttl": 0, "ttl": 86_400, "max_attempts": 2}
    [enqueued] = await scene.ask(EnqueueTasks((spec(**{**given, **options}),)))
    scene.task = enqueued.id
    [scene.lease] = await scene.ask(lease_command(scene))
    scene.attempts = scene.token = 1
    scene.holds = True


async def leased_for_the_last_time(scene: Scene) -> None:
    await leased(scene, max_attempts=1)


async def asked_to_let_go(scene: Scene) -> None:
    await leased(scene)
    await scene.ask(CancelTasks((scene.task,)))


async def run_out(scene: Scene) -> None:
    await leased(scene)
    await scene.sql("update wherry.lease set expires_at = statement_timestamp()")
    scene.has_run_out = True


async def due(scene: Scene) -> None:
    await leased(scene)
    await scene.ask(FailTasks((Failed(scene.held, "retry", FAILURE, 60.0),)))
    await scene.sql("update wherry.live set run_after = statement_timestamp()")
    scene.history, scene.holds = 1, False


async def stray(scene: Scene) -> None:
    """A ready task in front of the front, where only a hand can have put it."""
    await ready(scene)
    [[start]] = await scene.sql("select nextval('wherry.position'::regclass)")
    scene.front = Front((Stretch(HIGHEST_PRIORITY, LOWEST_PRIORITY, start),))
    await scene.sql(
        "insert into wherry.front (queue, position, noted_at, search_at, highs, lows, starts)"
        " values (%s, %s, statement_timestamp(), '-infinity', %s, %s, %s)",
        scene.queue,
        start,
        *scene.front.params.values(),
    )


async def expired(scene: Scene) -> None:
    await ready(scene)
    await scene.sql("update wherry.live set discard_at = statement_timestamp()")


async def succeeded(scene: Scene) -> None:
    await leased(scene)
    await scene.ask(CompleteTasks((Completed(scene.held),)))
    scene.is_final, scene.holds = True, False


async def dead(scene: Scene) -> None:
    await leased(scene, max_attempts=1, key_ttl=None)
    await scene.ask(FailTasks((Failed(scene.held, "retry", FAILURE),)))
    scene.is_final, scene.history, scene.holds = True, 1, False


# Each state, and the operations that may change something in it: the others race against these.
SCENES: dict[str, tuple[Callable[[Scene], Awaitable[None]], frozenset[str]]] = {
    "ready": (ready, frozenset({"lease", "lease_past_front", "lease_for_pollers", "cancel"})),
    "stray": (stray, frozenset({"lease", "lease_past_front", "cancel", "rescue"})),
    "leased": (
        leased,
        frozenset(
            {
                "complete",
                "complete_unlocked",
                "complete_in_transaction",
                "fail",
                "heartbeat",
                "cancel",
                "release",
                "release_unconfirmed",
            }
        ),
    ),
    "leased_for_the_last_time": (
        leased_for_the_last_time,
        frozenset({"fail", "release", "release_unconfirmed"}),
    ),
    "asked_to_let_go": (
        asked_to_let_go,
        frozenset(
            {
                "complete",
                "complete_unlocked",
                "complete_in_transaction",
                "fail",
                "release",
                "release_unconfirmed",
                "heartbeat",
            }
        ),
    ),
    "run_out": (run_out, frozenset({"reap", "cancel", "complete_in_transaction"})),
    "due": (due, frozenset({"promote", "cancel"})),
    "expired": (expired, frozenset({"discard", "cancel"})),
    "succeeded": (succeeded, frozenset({"requeue", "purge", "enqueue", "enqueue_rolled_back"})),
    "dead": (dead, frozenset({"requeue", "purge"})),
}


def partners(state: str, first: str) -> list[str]:
    """Return what races in a state against *first*, which may change something: each pair once."""
    acting = SCENES[state][1]
    names = list(OPERATIONS)
    return [
        name
        for name in names
        if name not in acting or names.index(name) >= names.index(first)
        # Where no front is, there is nobody to rescue.
        if name != "rescue" or state == "stray"
    ]


async def set_up(admin: psycopg.AsyncConnection[Any], state: str) -> Scene:
    """Return a new scene; what earlier ones have left among the live tasks is gone."""
    scene = Scene(admin, queue=f"q{next(_numbers)}")
    await scene.sql(
        "with l as (delete from wherry.live), f as (delete from wherry.front)"
        " delete from wherry.lease"
    )
    await SCENES[state][0](scene)
    return scene
