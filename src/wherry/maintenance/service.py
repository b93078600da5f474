"""Runs the steps of maintenance beside a worker, each when there is something for it to do.

One look every few seconds finds out what that is, so that an idle worker costs one small statement
and not one of each kind. Looks come no more rarely than what was promised allows, in every worker:
nobody leads, so nobody's death can delay anything. Any number of these run at once, so each look is
jittered. One step that fails is logged and comes again; it never stops the others. A recount, which
reads every task there is, goes on beside them over a connection of its own.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from wherry.commands.base import Command
from wherry.commands.declaring import DeclareSchedules
from wherry.commands.maintenance import (
    DiscardTasks,
    LookAround,
    ParkTasks,
    PromoteTasks,
    Reaped,
    ReapLeases,
    Seen,
    UnparkTasks,
)
from wherry.commands.queues import ListReadyQueues
from wherry.commands.tally import RecountTasks
from wherry.errors import Unavailable
from wherry.maintenance.scheduler import Scheduler
from wherry.maintenance.steps import CHORES, RARELY, RECOUNT, Maintained
from wherry.telemetry.loggers import logger
from wherry.transport.base import Transport
from wherry.transport.faults import without_rows
from wherry.transport.patience import SOON_SECONDS, Patience

log = logger("wherry.maintenance")

# A step that always finds more makes room for the others after so many rounds.
_ROUNDS = 20
_NUDGE_SECONDS = 0.01
_PARK_EVERY_SECONDS = 10.0
_UNPARK_EVERY_SECONDS = 10.0
# Where one lease is about to end, so may the next: a look for each would be too many.
_REAP_EVERY_SECONDS = 1.0
# If looking itself fails, each step has to see for itself.
_ANYTHING = Seen(
    lease_ends_in=0.0,
    due_in=0.0,
    discard_in=0.0,
    parked=True,
    ready=True,
    chores=tuple(CHORES),
    schedule_in=0.0,
)


@dataclass(slots=True)
class _Rhythm:
    command: Command[Any]
    every: float
    due_at: float = 0.0


class Maintenance:
    """The maintenance of one process."""

    def __init__(
        self,
        transport: Transport,
        *,
        look_seconds: Callable[[], float],
        queues: tuple[str, ...] | None,
        found_work: Callable[[], object],
        declares: DeclareSchedules | None = None,
        recounting: Transport | None = None,
    ) -> None:
        """*look_seconds*: at most so long until the next look, asked anew at each.

        *declares*: the schedules in this process's code. *recounting* carries recounts, beside all
        else; without it that is left to other processes.
        """
        self._transport = transport
        self._look_seconds = look_seconds
        self._queues = queues
        self._found_work = found_work
        self._woken = asyncio.Event()
        self._is_nudged = False
        self._recounting = recounting
        self._recount_due = asyncio.Event()
        self._look_at = 0.0
        self._promote_at = float("inf")
        self._patience: defaultdict[str, Patience] = defaultdict(Patience)
        self.done = Maintained()
        self._scheduler = Scheduler(self._call, declares=declares)
        self._rhythms = [_Rhythm(command, every) for command, every in RARELY]
        self._unpark_at = 0.0
        self._others_came = False
        # Not at once: workers that start together must have made themselves known first.
        self._park_at = monotonic() + 2.0

    def nudge(self) -> None:
        """Look for due tasks now: one has been enqueued, or put back, for a moment from now."""
        self._is_nudged = True
        self._woken.set()

    async def begin(self) -> None:
        """Declare this process's schedules before it begins. Raises Unavailable."""
        await self._scheduler.declare()

    def unpark(self) -> None:
        """Look for tasks that were set aside: somebody has come who knows other types."""
        self._others_came = True
        self._woken.set()

    async def run(self) -> None:
        """Keep going for ever; the owner cancels it."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._recount(), name="recount")
            await self._keep_looking()

    async def _keep_looking(self) -> None:
        patience = Patience(longest=SOON_SECONDS)
        while True:
            try:
                await self._tick()
                patience.reset()
            except Unavailable as error:
                if patience.may_complain():
                    log.warning("maintenance waits for the database: %s", error)
                await asyncio.sleep(patience.next_pause())

    async def _tick(self) -> None:
        # Before anything is done: who wakes us meanwhile asks for another turn.
        self._woken.clear()
        for rhythm in self._rhythms:
            if monotonic() >= rhythm.due_at:
                rhythm.due_at = monotonic() + rhythm.every * random.uniform(0.8, 1.0)
                if await self._repeat(rhythm.command):
                    rhythm.due_at = 0.0
        if self._others_came or monotonic() >= self._look_at:
            others_came, self._others_came = self._others_came, False
            try:
                await self._look(others_came=others_came)
            except Unavailable:
                # What they came for may not be done.
                self._others_came = self._others_came or others_came
                raise
        if monotonic() >= self._scheduler.next_at:
            await self._schedule()
        if self._is_nudged or monotonic() >= self._promote_at:
            self._is_nudged = False
            await self._promote()
        rare_at = min(rhythm.due_at for rhythm in self._rhythms)
        next_at = min(self._look_at, self._promote_at, rare_at, self._scheduler.next_at)
        try:
            async with asyncio.timeout(max(0.0, next_at - monotonic())):
                await self._woken.wait()
        except TimeoutError:
            return
        # What is ready goes first, and many nudges make one look.
        await asyncio.sleep(_NUDGE_SECONDS)

    async def _look(self, *, others_came: bool) -> None:
        """Find out what is due, do it, and settle when to look again."""
        now = monotonic()
        for_ready = now >= self._park_at
        seen: Seen = await self._call(LookAround(for_ready)) or _ANYTHING
        self._look_at = now + self._look_seconds() * random.uniform(0.8, 1.0)
        if seen.due_in is not None:
            self._promote_at = now + max(0.0, seen.due_in)
        self._scheduler.seen(seen.schedule_in)
        ends_in = seen.lease_ends_in
        if ends_in is not None and ends_in > 0:
            # Its holder extends it long before, if alive. Jittered, as all others wait for it too.
            reap_at = now + max(ends_in, _REAP_EVERY_SECONDS) + random.uniform(0.0, 0.5)
            self._look_at = min(self._look_at, reap_at)
        has_more = ends_in is not None and ends_in <= 0 and await self._repeat(ReapLeases())
        if seen.discard_in is not None and seen.discard_in <= 0:
            has_more = await self._repeat(DiscardTasks()) or has_more
        if seen.parked and (others_came or now >= self._unpark_at):
            self._unpark_at = now + _UNPARK_EVERY_SECONDS * random.uniform(0.8, 1.0)
            if await self._repeat(UnparkTasks()):
                self._unpark_at = 0.0
                has_more = True
        if for_ready:
            self._park_at = now + _PARK_EVERY_SECONDS * random.uniform(0.8, 1.0)
            if seen.ready:
                await self._park_unknown()
        if RECOUNT in seen.chores:
            self._recount_due.set()
        for chore in seen.chores:
            # A kind that a later version knows is for its own processes.
            if chore in CHORES:
                has_more = await self._repeat(CHORES[chore]) or has_more
        if has_more:
            self._look_at = 0.0

    async def _schedule(self) -> None:
        fired = await self._scheduler.run()
        self.done.scheduled += fired
        if fired:
            self._found_work()

    async def _promote(self) -> None:
        self._promote_at = float("inf")
        for _ in range(_ROUNDS):
            answer = await self._call(PromoteTasks())
            if answer is None:
                return
            self.done.add(answer)
            if not answer.promoted:
                if answer.next_in is not None:
                    self._promote_at = monotonic() + max(0.0, answer.next_in)
                return
            self._found_work()
        self._promote_at = 0.0

    async def _repeat(self, command: Command[Any]) -> bool:
        """Carry a step until it finds nothing, or for so many rounds: then there may be more."""
        for _ in range(_ROUNDS):
            answer = await self._call(command)
            more = self.done.add(answer)
            if isinstance(answer, Reaped) and answer:
                self._promote_at = 0.0
                log.warning(
                    "taken back from lost workers: %d tasks (to be retried: %d, dead: %d)",
                    len(answer),
                    len(answer.queued),
                    len(answer.dead),
                )
            if not more:
                return False
        return True

    async def _recount(self) -> None:
        """Recount whenever a look has found that it is due; others may have come first."""
        while self._recounting is not None:
            await self._recount_due.wait()
            self._recount_due.clear()
            # It is due still, or again in an hour if it was begun.
            with suppress(Unavailable):
                await self._call(RecountTasks(), by=self._recounting)

    async def _park_unknown(self) -> None:
        queues = self._queues or tuple(await self._call(ListReadyQueues()) or ())
        for queue in queues:
            for _ in range(_ROUNDS):
                if not await self._call(ParkTasks(queue)):
                    break

    async def _call(self, command: Command[Any], *, by: Transport | None = None) -> Any:
        try:
            return await (by or self._transport).call(command)
        except Unavailable:
            raise
        except Exception as error:
            # The border of a service's tick. What fails all the time is told once a minute.
            step = type(command).__name__
            if self._patience[step].may_complain():
                log.error(
                    "the maintenance step %s failed; it will be tried again",
                    step,
                    exc_info=without_rows(error),
                )
            return None
