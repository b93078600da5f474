"""The rpcs that look closer: decode, call the service, encode."""

from __future__ import annotations

from wherry.server.caller import Caller
from wherry.server.grpc.base import Verbs
from wherry.server.grpc.tasks import read_timeout
from wherry.wire.filter import read_filter
from wherry.wire.looking import write_groups, write_why
from wherry.wire.v1 import tasks_pb2 as pb


class LookingVerbs(Verbs):
    """The rpcs that tell more of tasks than what they are."""

    async def count_tasks(
        self, caller: Caller, request: pb.CountTasksRequest
    ) -> pb.CountTasksResponse:
        """Count tasks."""
        counted = await self.service.count_tasks(
            caller,
            most=request.most or 10_000,
            timeout=read_timeout(request),
            **read_filter(request.filter),
        )
        return pb.CountTasksResponse(tasks=counted.tasks, capped=counted.capped)

    async def group_dead_tasks(
        self, caller: Caller, request: pb.GroupDeadTasksRequest
    ) -> pb.GroupDeadTasksResponse:
        """Group dead and failed tasks."""
        found = await self.service.group_dead_tasks(
            caller, timeout=read_timeout(request), **read_filter(request.filter)
        )
        return write_groups(found)

    async def why_task(self, caller: Caller, request: pb.WhyTaskRequest) -> pb.WhyTaskResponse:
        """Tell why a task is where it is."""
        return write_why(await self.service.why_task(caller, id=request.id))
