"""What people ask about tasks, beside reading them."""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from wherry.app.asked_filter import asked_groups
from wherry.commands.looking import ReadNow, WhyTask
from wherry.domain.durations import Duration
from wherry.domain.filter import DeadGroups, FilterOptions
from wherry.domain.options import check_id
from wherry.domain.why import Why
from wherry.server.caller import Caller, Right
from wherry.server.service.base import Base, require_right
from wherry.server.service.reading import require_filter


class Looking(Base):
    """The verbs of looking closer; they change nothing."""

    async def group_dead_tasks(
        self,
        caller: Caller,
        *,
        timeout: Duration | None = None,
        **filter: Unpack[FilterOptions],
    ) -> DeadGroups:
        """Group dead and failed tasks by their errors. Raises TimedOut as `list_tasks` does."""
        require_filter(caller, Right.READ, filter.get("queue"))
        look = asked_groups(
            timeout=self.settings.search_timeout if timeout is None else timeout, **filter
        )
        return await self.app.acarry(look, call="group_dead_tasks")

    async def why_task(self, caller: Caller, *, id: int) -> Why:
        """Tell why a task is where it is.

        One of a queue that the caller may not read is not there, for all that is told of it.
        """
        require_right(caller, Right.READ)
        why = await self.app.acarry(WhyTask(check_id(id)), call="why")
        if why.queue is not None and not caller.may(Right.READ, why.queue):
            return Why.not_found(id)
        return why

    async def read_now(self, caller: Caller) -> datetime:
        """Tell the moment, by the database's clock; a server's own may differ."""
        require_right(caller, Right.READ)
        return await self.app.acarry(ReadNow(), call="read_now")
