"""Pause queues and types, let them go on, and limit what runs of a queue."""

from __future__ import annotations

from dataclasses import replace

from wherry.app.asked import asked_place, asked_reason
from wherry.commands.queues import PauseQueue, PauseType, ResumeQueue, ResumeType, SetQueueLimits
from wherry.domain.durations import Duration
from wherry.domain.limits import QueueLimits
from wherry.domain.options import check_name
from wherry.domain.task import Resumed
from wherry.server.caller import Caller, Right
from wherry.server.service.managing import Managing


class Pausing(Managing):
    """The verbs that say what is leased of a queue; they need the right `admin` there."""

    async def pause_queue(self, caller: Caller, *, queue: str, reason: str | None = None) -> bool:
        """Let nothing be leased from a queue; False if it was paused before."""
        caller.require(Right.ADMIN, check_name(queue, option="queue"))
        why = asked_reason(reason)
        return await self._audited(caller, PauseQueue(queue, caller.name, why), reason=why)

    async def resume_queue(
        self, caller: Caller, *, queue: str, reason: str | None = None
    ) -> Resumed:
        """Let a paused queue's tasks be leased again, and tell which types stay paused there."""
        caller.require(Right.ADMIN, check_name(queue, option="queue"))
        return await self._audited(caller, ResumeQueue(queue), reason=asked_reason(reason))

    async def set_queue_limits(
        self,
        caller: Caller,
        *,
        queue: str,
        max_running: int | None = None,
        rate: int | None = None,
        per: Duration | None = None,
        burst: int | None = None,
        reason: str | None = None,
    ) -> bool:
        """Let a queue have these limits and no others; False if they were the same before."""
        caller.require(Right.ADMIN, check_name(queue, option="queue"))
        limits = QueueLimits.of(max_running=max_running, rate=rate, per=per, burst=burst)
        command = SetQueueLimits(queue, limits)
        return await self._audited(caller, command, reason=asked_reason(reason))

    async def pause_type(
        self, caller: Caller, *, type: str, queue: str | None = None, reason: str | None = None
    ) -> bool:
        """Let nothing of a type be leased, in a queue or in all; False if it was so before."""
        command = PauseType(*_type_of(caller, type, queue), caller.name, asked_reason(reason))
        return await self._audited(caller, command, reason=command.reason)

    async def resume_type(
        self, caller: Caller, *, type: str, queue: str | None = None, reason: str | None = None
    ) -> Resumed:
        """Let a paused type's tasks be leased again, and tell what holds all the same.

        Of other queues only where the caller may know of them.
        """
        command = ResumeType(*_type_of(caller, type, queue))
        resumed = await self._audited(caller, command, reason=asked_reason(reason))
        still = tuple(
            each
            for each in resumed.still_paused
            if each.queue is None
            or caller.may(Right.ADMIN, each.queue)
            or caller.may(Right.READ, each.queue)
        )
        return replace(resumed, still_paused=still)


def _type_of(caller: Caller, type: str, queue: str | None) -> tuple[str, str | None]:
    """Return both, checked; all queues are for who may change all of them."""
    place = asked_place(queue)
    # Who may not pause anything there is not told what else is wrong.
    caller.require(Right.ADMIN, place)
    return check_name(type, option="type"), place
