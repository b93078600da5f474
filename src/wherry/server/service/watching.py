"""How many tasks go where, and how many are there; of the queues that the caller may read."""

from __future__ import annotations

from datetime import timedelta

from wherry.commands.flow import CountStates, ReadFlow
from wherry.commands.lines import ReadLines
from wherry.commands.workers import ListHeld
from wherry.domain.flow import Flow, Lines, States
from wherry.domain.options import check_name
from wherry.domain.worker import HeldTask
from wherry.server.caller import Caller, Right
from wherry.server.service.base import Base, require_right


class Watching(Base):
    """The verbs for whoever watches; they change nothing, and count no tasks one by one."""

    async def read_flow(
        self,
        caller: Caller,
        *,
        length: timedelta,
        points: int,
        queue: str | None = None,
        type: str | None = None,
    ) -> Flow:
        """Tell what happened in the last *length*, of one queue or of all that may be read."""
        queues = await self._readable(caller, queue)
        look = ReadFlow(int(length.total_seconds()), points, queues, type)
        return await self.app.acarry(look, call="read_flow")

    async def read_lines(
        self,
        caller: Caller,
        *,
        length: timedelta,
        points: int,
        by_type: bool = False,
        queue: str | None = None,
    ) -> Lines:
        """Tell what came and ended of each queue, or of each type, in the last *length*."""
        queues = await self._readable(caller, queue)
        look = ReadLines(int(length.total_seconds()), points, by_type, queues)
        return await self.app.acarry(look, call="read_lines")

    async def count_states(self, caller: Caller, *, queue: str | None = None) -> States:
        """Tell how many tasks are in which state, by queue and type."""
        queues = await self._readable(caller, queue)
        return await self.app.acarry(CountStates(queues), call="count_states")

    async def list_held(self, caller: Caller) -> list[HeldTask]:
        """List what workers run just now of the queues that may be read, the longest first."""
        require_right(caller, Right.READ)
        found = await self.app.acarry(ListHeld(), call="list_held")
        return [task for task in found if caller.may(Right.READ, task.queue)]

    async def _readable(self, caller: Caller, queue: str | None) -> tuple[str, ...] | None:
        """Return the queues that are looked at, None for all. Raises PermissionDenied."""
        require_right(caller, Right.READ)
        if queue is not None:
            caller.require(Right.READ, check_name(queue, option="queue"))
            return (queue,)
        if caller.may(Right.READ, None):
            return None
        known = await self.app.acarry(CountStates(), call="count_states")
        found = dict.fromkeys(count.queue for count in known.counts)
        # The queue without a name stands for many, of which some may be others'.
        return tuple(name for name in found if name and caller.may(Right.READ, name))
