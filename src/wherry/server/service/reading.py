"""Look at tasks, queues, workers, and the server itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import wherry
from wherry.app.asked_filter import asked_count, asked_page
from wherry.commands.finding import PAGE_LIMIT_BYTES
from wherry.commands.tasks import GetTask
from wherry.commands.workers import ListWorkers
from wherry.domain.durations import Duration
from wherry.domain.filter import Counted, FilterOptions
from wherry.domain.options import check_id, check_key, check_name
from wherry.domain.task import Page, PausedType, QueueDepth, Task
from wherry.domain.worker import WorkerSeen
from wherry.errors import InvalidOption, NotFound, PermissionDenied
from wherry.server.caller import Caller, Right
from wherry.server.service.base import Base, require_right
from wherry.server.service.values import ServerInfo


class Reading(Base):
    """The verbs that change nothing."""

    async def get_task(
        self,
        caller: Caller,
        *,
        id: int | None = None,
        queue: str | None = None,
        key: str | None = None,
    ) -> Task:
        """Read a task with its history, by id or by queue and key.

        Raises NotFound also for a task of a queue that the caller may not read.
        """
        require_right(caller, Right.READ)
        if id is None:
            if queue is None or key is None:
                raise InvalidOption("id", id, "name the task: its id, or its queue and key")
            caller.require(Right.READ, check_name(queue, option="queue"))
            look = GetTask(queue=queue, key=check_key(key))
        else:
            if queue is not None or key is not None:
                raise InvalidOption("id", id, "give the id, or queue and key, not both")
            look = GetTask(check_id(id))
        task = await self.app.acarry(look, call="get_task")
        if task is None or not caller.may(Right.READ, task.queue):
            raise NotFound(id, key=key)
        return task

    async def list_tasks(
        self,
        caller: Caller,
        *,
        limit: int = 100,
        after: int | None = None,
        before: int | None = None,
        timeout: Duration | None = None,
        limit_bytes: int = PAGE_LIMIT_BYTES,
        **filter: Unpack[FilterOptions],
    ) -> Page:
        """List tasks, newest first and without their histories.

        The page ends early at some *limit_bytes* of payloads and results. Raises TimedOut for a
        search that takes longer than *timeout*, 3 s if it was not said.
        """
        require_filter(caller, Right.READ, filter.get("queue"))
        look = asked_page(
            limit=limit,
            after=after,
            before=before,
            timeout=self.settings.search_timeout if timeout is None else timeout,
            limit_bytes=limit_bytes,
            **filter,
        )
        return await self.app.acarry(look, call="list_tasks")

    async def count_tasks(
        self,
        caller: Caller,
        *,
        most: int = 10_000,
        timeout: Duration | None = None,
        **filter: Unpack[FilterOptions],
    ) -> Counted:
        """Count tasks, up to *most*. Raises TimedOut as `list_tasks` does."""
        require_filter(caller, Right.READ, filter.get("queue"))
        look = asked_count(
            most=most,
            timeout=self.settings.search_timeout if timeout is None else timeout,
            **filter,
        )
        return await self.app.acarry(look, call="count_tasks")

    async def list_queues(self, caller: Caller) -> list[QueueDepth]:
        """Count what each queue holds that the caller may read."""
        require_right(caller, Right.READ)
        found = await self.app.alist_queues()
        return [depth for depth in found if caller.may(Right.READ, depth.queue)]

    async def list_paused_types(self, caller: Caller) -> list[PausedType]:
        """List the types that are paused in all queues, or in one that the caller may read."""
        require_right(caller, Right.READ)
        found = await self.app.alist_paused_types()
        return [each for each in found if each.queue is None or caller.may(Right.READ, each.queue)]

    async def list_workers(self, caller: Caller) -> list[WorkerSeen]:
        """List the workers of the last day that serve a queue which the caller may read.

        Queues that are not the caller's to know are left out of what a worker serves.
        """
        require_right(caller, Right.READ)
        found = await self.app.acarry(ListWorkers(), call="list_workers")
        if caller.may(Right.READ, None):
            return found
        seen: list[WorkerSeen] = []
        for worker in found:
            if worker.queues is None:
                seen.append(worker)
                continue
            readable = tuple(name for name in worker.queues if caller.may(Right.READ, name))
            if readable:
                seen.append(replace(worker, queues=readable))
        return seen

    async def server_info(self, caller: Caller) -> ServerInfo:
        """Tell what this server is; everybody who was let in may know."""
        return ServerInfo(
            version=wherry.__version__,
            batch_limit=self.settings.batch_limit,
            request_limit_bytes=self.settings.request_limit_bytes,
            longest_wait_seconds=self.settings.longest_wait.total_seconds(),
        )


def require_filter(caller: Caller, right: Right, queue: str | None) -> None:
    """Raise PermissionDenied unless the caller has *right* on what a filter may find."""
    require_right(caller, right)
    if queue is None and not caller.may(right, None):
        raise PermissionDenied(
            f"the right {right} on all queues ('*') is needed for this: name a queue in the filter"
        )
    caller.require(right, queue)
