"""Runs the steps of maintenance beside a worker, each in its own rhythm.

Any number of these run at once, so every rhythm is jittered. One step that fails is logged and
comes again; it never stops the others.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from wherry.commands.base import Command
from wherry.commands.maintenance import ParkTasks, PromoteTasks, Reaped, ReapLeases
from wherry.commands.queues import ListReadyQueues
from wherry.errors import Unavailable
from wherry.maintenance.steps import RHYTHMS, Maintained
from wherry.transport.base import Transport
from wherry.transport.faults import without_rows
from wherry.transport.patience import Patience

log = logging.getLogger("wherry.maintenance")

# A step that always finds more makes room for the others after so many rounds.
_ROUNDS = 20
_PARK_EVERY = 10.0


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
        reap_seconds: float,
        promote_seconds: Callable[[], float],
        queues: tuple[str, ...] | None,
        found_work: Callable[[], object],
    ) -> None:
        self._transport = transport
        self._promote_seconds = promote_seconds
        self._queues = queues
        self._found_work = found_work
        self._nudged = asyncio.Event()
        self._promote_at = 0.0
        self._patience: defaultdict[str, Patience] = defaultdict(Patience)
        self.done = Maintained()
        self._rhythms = [
            _Rhythm(command, reap_seconds if isinstance(command, ReapLeases) else every)
            for command, every in RHYTHMS
        ]
        # Not at once: workers that start together must have made themselves known first.
        self._park_at = monotonic() + 2.0

    def nudge(self) -> None:
        """Look for due tasks now: one has been enqueued, or put back, for a moment from now."""
        self._nudged.set()

    async def run(self) -> None:
        """Keep going for ever; the owner cancels it."""
        patience = Patience(longest=2.0)
        while True:
            try:
                await self._tick()
                patience.reset()
            except Unavailable as error:
                if patience.may_complain():
                    log.warning("maintenance waits for the database: %s", error)
                await asyncio.sleep(patience.next_pause())

    async def _tick(self) -> None:
        if self._nudged.is_set() or monotonic() >= self._promote_at:
            # Before the look: a nudge that comes during it asks for another one.
            self._nudged.clear()
            await self._promote()
        for rhythm in self._rhythms:
            if monotonic() >= rhythm.due_at:
                rhythm.due_at = monotonic() + rhythm.every * random.uniform(0.8, 1.0)
                await self._repeat(rhythm.command)
        if monotonic() >= self._park_at:
            self._park_at = monotonic() + _PARK_EVERY * random.uniform(0.8, 1.0)
            await self._park_unknown()
        next_at = min(self._promote_at, *(rhythm.due_at for rhythm in self._rhythms))
        try:
            async with asyncio.timeout(max(0.0, next_at - monotonic())):
                await self._nudged.wait()
        except TimeoutError:
            return

    async def _promote(self) -> None:
        step = self._promote_seconds() * random.uniform(0.8, 1.0)
        for _ in range(_ROUNDS):
            answer = await self._call(PromoteTasks())
            if answer is None:
                break
            self.done.add(answer)
            if answer.promoted:
                self._found_work()
                continue
            if answer.next_in is not None:
                step = min(step, max(0.0, answer.next_in))
            break
        self._promote_at = monotonic() + step

    async def _repeat(self, command: Command[Any]) -> None:
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
                return

    async def _park_unknown(self) -> None:
        queues = self._queues or tuple(await self._call(ListReadyQueues()) or ())
        for queue in queues:
            for _ in range(_ROUNDS):
                if not await self._call(ParkTasks(queue)):
                    break

    async def _call(self, command: Command[Any]) -> Any:
        try:
            return await self._transport.call(command)
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
