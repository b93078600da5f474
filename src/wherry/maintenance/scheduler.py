"""Settles schedules when they are due, beside the other steps of maintenance.

It sleeps until the next time that it knows of; looks around tell of others. Nobody leads: whoever
comes first does it, and the others find that it is done. If a step fails, each schedule is seen to
alone, so that one that cannot be settled holds up no other.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from wherry.commands.base import Command
from wherry.commands.declaring import DeclareSchedules
from wherry.commands.scheduling import ListDue, Settled, SettleSchedules
from wherry.maintenance.declaring import Declaring
from wherry.telemetry.loggers import logger
from wherry.transport.patience import Patience

log = logger("wherry.maintenance")

# After the very moment, so that nobody comes too early, and not all at once.
_LATE_SECONDS = (0.001, 0.03)
# After a failure, and between looks at what somebody else is at.
_AGAIN_SECONDS = 1.0
# Of one batch after another, until other steps have their turn.
_ROUNDS = 20


class Scheduler:
    """The schedules' part of one process's maintenance.

    *call* carries a command, and answers None if it failed, which was logged. *declares*: what is
    said of the schedules in this process's code, if there are any.
    """

    def __init__(
        self,
        call: Callable[[Command[Any]], Awaitable[Any]],
        *,
        declares: DeclareSchedules | None = None,
    ) -> None:
        self._call = call
        self._declaring = Declaring(call, () if declares is None else (declares,))
        self._at = float("inf")
        self._troubles: defaultdict[str, Patience] = defaultdict(Patience)

    @property
    def next_at(self) -> float:
        """When `run` has something to do, by the monotonic clock."""
        return min(self._at, self._declaring.next_at)

    def seen(self, schedule_in: float | None) -> None:
        """A look around has told in how many seconds the next schedule is due."""
        self._at = self._after(schedule_in)

    async def declare(self) -> None:
        """Say which schedules this process's code declares, if it is time to say so (again)."""
        if await self._declaring.declare():
            self._at = 0.0

    async def run(self) -> int:
        """Do what there is to do; answers how many tasks there are more."""
        await self.declare()
        return await self._settle() if monotonic() >= self._at else 0

    async def _settle(self) -> int:
        fired = 0
        for _ in range(_ROUNDS):
            settled: Settled | None = await self._call(SettleSchedules())
            if settled is None:
                self._at = monotonic() + _AGAIN_SECONDS
                return fired + await self._settle_each()
            fired += self._told(settled)
            self._at = self._after(settled.next_in)
            if not settled.more:
                if settled.next_in is not None and settled.next_in <= 0 and not settled.fired:
                    # Somebody else is at it.
                    self._at = monotonic() + _AGAIN_SECONDS
                return fired
        self._at = 0.0
        return fired

    async def _settle_each(self) -> int:
        fired = 0
        for name in await self._call(ListDue()) or ():
            settled: Settled | None = await self._call(SettleSchedules(name=name))
            if settled is None:
                if self._troubles[name].may_complain():
                    log.error("schedule %s cannot be settled; it will be tried again", name)
            else:
                fired += self._told(settled)
        return fired

    def _told(self, settled: Settled) -> int:
        for name, at, id_ in settled.fired:
            log.debug("schedule %s: task %s for %s", name, id_, at.isoformat())
        for name, span in settled.passed:
            log.warning(
                "schedule %s: no task for %s (%d), from %s to %s",
                name,
                span.outcome,
                span.n,
                span.first.isoformat(),
                span.last.isoformat(),
            )
        for name, trouble in settled.troubles:
            if self._troubles[name].may_complain():
                log.error("schedule %s: its times cannot be told here: %s", name, trouble)
        return len(settled.fired)

    def _after(self, seconds: float | None) -> float:
        if seconds is None:
            return float("inf")
        return monotonic() + max(0.0, seconds) + random.uniform(*_LATE_SECONDS)
