"""Let schedules stand: by hand, or because the code of a worker declares them.

A schedule stores tasks whenever it comes, so that whoever lets one stand may enqueue into its
queue. A name belongs to the queue that its schedule stands for: code of whoever may not enqueue
there neither changes it nor keeps it alive.
"""

from __future__ import annotations

from collections.abc import Sequence

from wherry.app.asked import asked_reason
from wherry.commands.declaring import AddSchedule, DeclareSchedules, Stood
from wherry.domain.options import Options
from wherry.domain.schedule import Schedule
from wherry.errors import InvalidOption
from wherry.server.caller import Caller, Right
from wherry.server.service.base import queue_of, require_right, within
from wherry.server.service.leasing import who_of
from wherry.server.service.managing import Managing
from wherry.server.service.values import AskedSchedule
from wherry.tasks.payload import encode_text


class Declaring(Managing):
    """The verbs by which schedules come to be."""

    async def add_schedule(
        self, caller: Caller, *, schedule: AskedSchedule, reason: str | None = None
    ) -> bool:
        """Add a schedule by hand; False, and nothing changes, if there is one of its name."""
        queue = queue_of(schedule.options)
        caller.require(Right.ADMIN, queue)
        caller.require(Right.ENQUEUE, queue)
        why = asked_reason(reason)
        return await self._audited(caller, AddSchedule(_checked(schedule), why), reason=why)

    async def declare_schedules(
        self,
        caller: Caller,
        *,
        worker: str,
        instance: str | None,
        schedules: Sequence[AskedSchedule],
    ) -> Stood:
        """See that what a worker's code declares stands, for as long as the worker is heard of."""
        require_right(caller, Right.WORK)
        require_right(caller, Right.ENQUEUE)
        self.refuse_too_many(schedules, of="schedules")
        who = who_of(caller, worker, instance)
        if who.row is None:
            reason = "is missing: draw a UUID at your start, and lease with it too"
            raise InvalidOption("instance", instance, reason)
        declared: dict[str, Schedule] = {}
        for n, schedule in enumerate(schedules):
            with within(f"schedules[{n}]"):
                made = _checked(schedule)
            declared[made.name] = made
        if len(declared) < len(schedules):
            raise InvalidOption(
                "schedules", len(schedules), "some have one name: give each its own"
            )
        self.desk.seen(who, host=caller.peer)
        command = DeclareSchedules(
            tuple(declared.values()),
            who.row,
            may_fill=lambda queue: caller.may(Right.ENQUEUE, queue),
        )
        return await self.app.acarry(command, call="declare_schedules")


def _checked(asked: AskedSchedule) -> Schedule:
    chosen = Options.declared(asked.options)
    return Schedule.checked(
        asked.name,
        asked.cron,
        chosen.spec(asked.type, encode_text(asked.payload_text or "{}")),
        tz=asked.tz,
        missed=asked.missed,
        overlap=asked.overlap,
    )
