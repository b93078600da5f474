"""The rpcs about queues, workers and the server: decode, call the service, encode."""

from __future__ import annotations

from wherry.server.caller import Caller
from wherry.server.grpc.base import Verbs
from wherry.wire.operators import (
    read_limits,
    write_paused_type,
    write_queue,
    write_resumed_queue,
    write_resumed_type,
    write_worker,
)
from wherry.wire.v1 import operators_pb2 as pb
from wherry.wire.values import DIRECTIVES, write_duration


class OperatorVerbs(Verbs):
    """The rpcs of operators, and a worker's goodbye."""

    async def list_queues(
        self, caller: Caller, request: pb.ListQueuesRequest
    ) -> pb.ListQueuesResponse:
        """Count what each queue holds."""
        depths = await self.service.list_queues(caller)
        return pb.ListQueuesResponse(queues=[write_queue(depth) for depth in depths])

    async def pause_queue(
        self, caller: Caller, request: pb.PauseQueueRequest
    ) -> pb.PauseQueueResponse:
        """Let nothing of a queue be leased."""
        changed = await self.service.pause_queue(
            caller, queue=request.queue, reason=request.reason or None
        )
        return pb.PauseQueueResponse(changed=changed)

    async def resume_queue(
        self, caller: Caller, request: pb.ResumeQueueRequest
    ) -> pb.ResumeQueueResponse:
        """Let a paused queue's tasks be leased again."""
        resumed = await self.service.resume_queue(
            caller, queue=request.queue, reason=request.reason or None
        )
        return write_resumed_queue(resumed)

    async def set_queue_limits(
        self, caller: Caller, request: pb.SetQueueLimitsRequest
    ) -> pb.SetQueueLimitsResponse:
        """Let only so many tasks of a queue run, or start in a time."""
        changed = await self.service.set_queue_limits(
            caller,
            queue=request.queue,
            reason=request.reason or None,
            **read_limits(request.limits),
        )
        return pb.SetQueueLimitsResponse(changed=changed)

    async def list_paused_types(
        self, caller: Caller, request: pb.ListPausedTypesRequest
    ) -> pb.ListPausedTypesResponse:
        """List the types that are paused."""
        paused = await self.service.list_paused_types(caller)
        return pb.ListPausedTypesResponse(types=[write_paused_type(each) for each in paused])

    async def pause_type(
        self, caller: Caller, request: pb.PauseTypeRequest
    ) -> pb.PauseTypeResponse:
        """Let nothing of a type be leased."""
        changed = await self.service.pause_type(
            caller, type=request.type, queue=_queue_of(request), reason=request.reason or None
        )
        return pb.PauseTypeResponse(changed=changed)

    async def resume_type(
        self, caller: Caller, request: pb.ResumeTypeRequest
    ) -> pb.ResumeTypeResponse:
        """Let a paused type's tasks be leased again."""
        resumed = await self.service.resume_type(
            caller, type=request.type, queue=_queue_of(request), reason=request.reason or None
        )
        return write_resumed_type(resumed)

    async def list_workers(
        self, caller: Caller, request: pb.ListWorkersRequest
    ) -> pb.ListWorkersResponse:
        """List the workers of the last day."""
        seen = await self.service.list_workers(caller)
        return pb.ListWorkersResponse(workers=[write_worker(worker) for worker in seen])

    async def direct_workers(
        self, caller: Caller, request: pb.DirectWorkersRequest
    ) -> pb.DirectWorkersResponse:
        """Tell workers to drain, to stop, or to go on."""
        self.service.refuse_too_many(request.names, of="names")
        told = await self.service.direct_workers(
            caller,
            names=list(request.names),
            directive=DIRECTIVES.read(request.directive, option="directive"),
            reason=request.reason or None,
        )
        return pb.DirectWorkersResponse(told=told)

    async def leave_worker(
        self, caller: Caller, request: pb.LeaveWorkerRequest
    ) -> pb.LeaveWorkerResponse:
        """A worker says goodbye."""
        await self.service.leave_worker(
            caller, worker=request.worker_id, instance=request.instance or None
        )
        return pb.LeaveWorkerResponse()

    async def get_server(
        self, caller: Caller, request: pb.GetServerRequest
    ) -> pb.GetServerResponse:
        """Tell what this server is."""
        info = await self.service.server_info(caller)
        return pb.GetServerResponse(
            version=info.version,
            batch_limit=info.batch_limit,
            request_limit_bytes=info.request_limit_bytes,
            longest_wait=write_duration(info.longest_wait_seconds),
        )


def _queue_of(request: pb.PauseTypeRequest | pb.ResumeTypeRequest) -> str | None:
    # An empty name is not none: an unset variable must not be taken for all queues.
    return request.queue if request.HasField("queue") else None
