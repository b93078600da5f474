"""Change when queued tasks run, and which of them first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from wherry.app.asked import asked_due
from wherry.commands.replanning import ReprioritizeTasks, RescheduleTasks
from wherry.domain.durations import Duration
from wherry.domain.options import check_priority
from wherry.domain.state import State
from wherry.domain.task import Replanned
from wherry.server.caller import Caller
from wherry.server.service.managing import Managing, Verb
from wherry.server.service.values import Changed

_QUEUED: Final = (str(State.QUEUED),)


class Replanning(Managing):
    """The verbs that change queued tasks and leave them queued."""

    async def reprioritize_tasks(
        self,
        caller: Caller,
        *,
        priority: int,
        ids: Sequence[int] | None = None,
        filter: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        limit: int = 500,
        after: int | None = None,
    ) -> Changed:
        """Give another priority to the queued tasks that are named, or to a page of a filter's."""
        level = check_priority(priority)
        return await self._change(
            caller,
            Verb(_QUEUED, lambda ids: ReprioritizeTasks(ids, level), Replanned.UNKNOWN),
            ids=ids,
            filter=filter,
            dry_run=dry_run,
            reason=reason,
            limit=limit,
            after=after,
        )

    async def reschedule_tasks(
        self,
        caller: Caller,
        *,
        run_after: datetime | None = None,
        delay: Duration | None = None,
        ids: Sequence[int] | None = None,
        filter: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        limit: int = 500,
        after: int | None = None,
    ) -> Changed:
        """Let the queued tasks that are named, or a page of a filter's, run at another time."""
        at, seconds = asked_due(run_after, delay)
        return await self._change(
            caller,
            Verb(_QUEUED, lambda ids: RescheduleTasks(ids, at, seconds), Replanned.UNKNOWN),
            ids=ids,
            filter=filter,
            dry_run=dry_run,
            reason=reason,
            limit=limit,
            after=after,
        )
