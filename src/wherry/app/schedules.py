"""The calls of an App about schedules; `schedules_blocking.py` is generated from this file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Unpack

from wherry.app.asked import asked_reason, asked_schedule
from wherry.app.storing import Storing
from wherry.commands.declaring import AddSchedule
from wherry.commands.schedules import (
    DeleteSchedule,
    ListSchedules,
    ListTicks,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
)
from wherry.domain.options import DeclaredOptions, check_instant, check_integer, check_name
from wherry.domain.schedule import ScheduleSeen, Tick
from wherry.domain.task import Enqueued
from wherry.tasks.registry import Registry


class Schedules(Storing):
    """What operators ask of schedules, awaited."""

    registry: Registry

    async def alist_schedules(self) -> list[ScheduleSeen]:
        """List all schedules by name, those that no live worker declares included."""
        return await self.acarry(ListSchedules(), call="list_schedules")

    async def aget_schedule(self, name: str) -> ScheduleSeen | None:
        """Read one schedule; None if there is none of this name."""
        found = await self.acarry(ListSchedules(_checked(name)), call="get_schedule")
        return found[0] if found else None

    async def alist_ticks(
        self, name: str, *, limit: int = 100, before: datetime | None = None
    ) -> list[Tick]:
        """List what became of a schedule's times, newest first; 1 to 1,000 of them.

        *before*: those planned earlier, for the next page: the last one's `planned_at`. Times that
        brought no task and follow one another are one. Raises NotFound.
        """
        rows = check_integer(limit, option="limit", least=1, most=1000)
        then = None if before is None else check_instant(before, option="before")
        look = ListTicks(name=_checked(name), limit=rows, before=then)
        return await self.acarry(look, call="list_ticks")

    async def aadd_schedule(
        self,
        name: str,
        cron: str,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tz: str = "UTC",
        missed: str = "last",
        overlap: str = "allow",
        reason: str | None = None,
        **options: Unpack[DeclaredOptions],
    ) -> bool:
        """Add a schedule by hand, of a type by its name: it fires until it is deleted.

        False, and nothing changes, if there is one of this name. All else is as of `App.schedule`,
        which is for schedules that stand in code. Raises InvalidTask.
        """
        schedule = asked_schedule(
            self.registry,
            name,
            cron,
            type,
            {} if payload is None else payload,
            tz=tz,
            missed=missed,
            overlap=overlap,
            options=options,
        )
        return await self.acarry(AddSchedule(schedule, asked_reason(reason)), call="add_schedule")

    async def arun_schedule(self, name: str, *, reason: str | None = None) -> Enqueued:
        """Store a task of a schedule now, also of one that is paused, or whose last task runs yet.

        It is no tick: the next time stays what it is. Raises NotFound.
        """
        run = RunSchedule(name=_checked(name), reason=asked_reason(reason))
        return await self.astore_run(run, actor=self.actor)

    async def apause_schedule(self, name: str, *, reason: str | None = None) -> bool:
        """Let a schedule bring no more tasks until it is resumed; those that are there run.

        False if it was paused already: then the first words stay. Raises NotFound.
        """
        actor = None if self.actor is None else self.actor.name
        pause = PauseSchedule(_checked(name), actor, asked_reason(reason))
        return await self.acarry(pause, call="pause_schedule")

    async def aresume_schedule(self, name: str, *, reason: str | None = None) -> bool:
        """Let a schedule bring tasks again; the times of the pause are passed over, not made up.

        False if it was not paused. Raises NotFound.
        """
        resume = ResumeSchedule(_checked(name), asked_reason(reason))
        return await self.acarry(resume, call="resume_schedule")

    async def adelete_schedule(self, name: str, *, reason: str | None = None) -> bool:
        """Delete a schedule and its history; its tasks stay.

        False, and nothing is deleted, while a live worker declares it: take it out of the code
        first. Raises NotFound.
        """
        delete = DeleteSchedule(_checked(name), asked_reason(reason))
        return await self.acarry(delete, call="delete_schedule")


def _checked(name: str) -> str:
    return check_name(name, option="name")
