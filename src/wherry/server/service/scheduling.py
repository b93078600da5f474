"""Look at schedules, and run, pause, resume and delete them."""

from __future__ import annotations

from datetime import datetime

from wherry.app.asked import asked_reason
from wherry.commands.audit import Actor
from wherry.commands.schedules import (
    DeleteSchedule,
    ListSchedules,
    ListTicks,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
    require,
)
from wherry.domain.options import check_instant, check_integer, check_name
from wherry.domain.schedule import ScheduleSeen, Tick
from wherry.domain.task import Enqueued
from wherry.server.caller import Caller, Right
from wherry.server.service.base import require_right
from wherry.server.service.managing import Managing


class Scheduling(Managing):
    """The verbs about schedules. Whose tasks' queue the caller may not read is not there."""

    async def list_schedules(self, caller: Caller) -> list[ScheduleSeen]:
        """List the schedules by name whose queues the caller may read."""
        require_right(caller, Right.READ)
        found = await self.app.acarry(ListSchedules(), call="list_schedules")
        return [seen for seen in found if caller.may(Right.READ, seen.queue)]

    async def get_schedule(self, caller: Caller, *, name: str) -> ScheduleSeen:
        """Read one schedule. Raises NotFound."""
        require_right(caller, Right.READ)
        return await self._seen(caller, name, Right.READ)

    async def list_ticks(
        self, caller: Caller, *, name: str, limit: int = 100, before: datetime | None = None
    ) -> list[Tick]:
        """List what became of a schedule's times, newest first; *before*: those planned earlier."""
        require_right(caller, Right.READ)
        rows = check_integer(limit, option="limit", least=1, most=self.settings.batch_limit)
        then = None if before is None else check_instant(before, option="before")
        seen = await self._seen(caller, name, Right.READ)
        look = ListTicks(name=seen.name, limit=rows, before=then)
        return await self.app.acarry(look, call="list_ticks")

    async def run_schedule(
        self, caller: Caller, *, name: str, reason: str | None = None
    ) -> Enqueued:
        """Store one task of a schedule now; its next time stays what it is."""
        seen = await self._for_change(caller, name)
        run = RunSchedule(name=seen.name, reason=asked_reason(reason))
        return await self.app.astore_run(run, actor=Actor(caller.name, caller.peer or None))

    async def pause_schedule(self, caller: Caller, *, name: str, reason: str | None = None) -> bool:
        """Let a schedule bring no task until it is resumed; False if it was paused before."""
        seen = await self._for_change(caller, name)
        why = asked_reason(reason)
        command = PauseSchedule(seen.name, caller.name, why)
        return await self._audited(caller, command, reason=why)

    async def resume_schedule(
        self, caller: Caller, *, name: str, reason: str | None = None
    ) -> bool:
        """Let a paused schedule bring tasks again; False if it was not paused."""
        seen = await self._for_change(caller, name)
        why = asked_reason(reason)
        return await self._audited(caller, ResumeSchedule(seen.name, why), reason=why)

    async def delete_schedule(
        self, caller: Caller, *, name: str, reason: str | None = None
    ) -> bool:
        """Delete a schedule with its history; False while a live worker declares it."""
        seen = await self._for_change(caller, name)
        why = asked_reason(reason)
        return await self._audited(caller, DeleteSchedule(seen.name, why), reason=why)

    async def _for_change(self, caller: Caller, name: str) -> ScheduleSeen:
        require_right(caller, Right.ADMIN)
        return await self._seen(caller, name, Right.ADMIN)

    async def _seen(self, caller: Caller, name: str, right: Right) -> ScheduleSeen:
        look = ListSchedules(check_name(name, option="name"))
        found = await self.app.acarry(look, call="get_schedule")
        known = [
            seen
            for seen in found
            if caller.may(right, seen.queue) or caller.may(Right.READ, seen.queue)
        ]
        require(bool(known), name)
        caller.require(right, known[0].queue)
        return known[0]
