"""Says which schedules a process's code declares: at its start, and again while it lives.

On the database that is a part of maintenance. A worker that has only a server does the same through
it; the server settles what is due.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Final, NoReturn

from wherry.commands.declaring import DeclareSchedules, Stood
from wherry.config import SCHEDULES_LIMIT
from wherry.errors import Unavailable, WherryError
from wherry.telemetry.loggers import logger
from wherry.transport.base import Transport
from wherry.transport.patience import Patience

log = logger("wherry.maintenance")

_AGAIN_SECONDS = 1.0
_DECLARE_SECONDS = 60.0
# So many names stand in a warning about all schedules.
_MOST_SHOWN: Final = 5


class Declaring:
    """What one process declares.

    *call* carries a command, and answers None if it failed, which was told. *declares*: each is
    sent by itself.
    """

    def __init__(
        self,
        call: Callable[[DeclareSchedules], Awaitable[Stood | None]],
        declares: Sequence[DeclareSchedules],
    ) -> None:
        self._call = call
        self._declares = declares
        self._gave_way: defaultdict[str, Patience] = defaultdict(Patience)
        # When it is to be said next, by the monotonic clock.
        self.next_at = 0.0 if declares else float("inf")

    async def declare(self) -> bool:
        """Say it, if it is time to (again); whether anything about it is new to the database."""
        if monotonic() < self.next_at:
            return False
        stood = [await self._call(each) for each in self._declares]
        soon = any(each is None or each.is_unknown for each in stood)
        pause = _AGAIN_SECONDS if soon else _DECLARE_SECONDS * random.uniform(0.8, 1.0)
        self.next_at = monotonic() + pause
        news = [
            self._told(declares, each)
            for declares, each in zip(self._declares, stood, strict=True)
            if each is not None
        ]
        return any(news)

    def _told(self, declares: DeclareSchedules, stood: Stood) -> bool:
        for name in stood.added:
            log.info("schedule %s: new", name)
        for name in stood.replaced:
            log.info("schedule %s: changed to what this worker's code says", name)
        for name in stood.gave_way:
            if self._gave_way[name].may_complain():
                log.warning(
                    "schedule %s: another live worker declares it otherwise, and newer than this"
                    " one's code; that stands as long as there is one",
                    name,
                )
        for name in stood.by_hand:
            if self._gave_way[name].may_complain():
                log.warning(
                    "schedule %s: one of this name was made by hand, and stands: give this one"
                    " another name, or delete that one with `wherry cron delete`",
                    name,
                )
        for name in stood.foreign:
            if self._gave_way[name].may_complain():
                log.warning(
                    "schedule %s: one of this name stands for a queue that this worker's token may"
                    " not enqueue into: give this one another name",
                    name,
                )
        queues = {each.name: each.task.queue for each in declares.schedules}
        for name in stood.refused:
            if self._gave_way[name].may_complain():
                log.warning(
                    "schedule %s: not declared, and brings no tasks by this worker: its token needs"
                    " the right enqueue on queue %r",
                    name,
                    queues.get(name),
                )
        for name in stood.no_room:
            if self._gave_way[name].may_complain():
                log.warning(
                    "schedule %s: not declared: queue %r has %s schedules, and no queue may have"
                    " more; delete some, or store tasks with a delay instead",
                    name,
                    queues.get(name),
                    f"{SCHEDULES_LIMIT:,}",
                )
        return stood.is_news or bool(stood.replaced)


async def keep_declaring(transport: Transport, declares: Sequence[DeclareSchedules]) -> NoReturn:
    """Declare through a server for ever; the owner cancels it."""
    patience = Patience()

    async def call(command: DeclareSchedules) -> Stood | None:
        try:
            return await transport.call(command)
        except Unavailable as error:
            if patience.may_complain():
                log.warning("schedules are not declared yet: %s", error)
            return None
        except WherryError as error:
            # What the server does not let us, or does not know yet, may be otherwise before long.
            if patience.may_complain(about=str(error)):
                log.warning(
                    "schedules in this worker's code are not declared, and bring no tasks by it"
                    " (%s): %s",
                    _shown([each.name for each in command.schedules]),
                    error,
                )
            return Stood()

    declaring = Declaring(call, declares)
    while True:
        await declaring.declare()
        await asyncio.sleep(max(0.0, declaring.next_at - monotonic()))


def _shown(names: Sequence[str]) -> str:
    left_out = len(names) - _MOST_SHOWN
    more = f", and {left_out:,} more" if left_out > 0 else ""
    return ", ".join(names[:_MOST_SHOWN]) + more
