"""Which rpc carries which command of operators, and what only workers say of themselves."""

from __future__ import annotations

from typing import Any

from wherry.commands.finding import CountTasks, GroupDeadTasks
from wherry.commands.looking import WhyTask
from wherry.commands.queues import (
    ListPausedTypes,
    ListQueues,
    PauseQueue,
    PauseType,
    ResumeQueue,
    ResumeType,
    SetQueueLimits,
)
from wherry.commands.remote import GetServer
from wherry.commands.workers import BeatWorker, DirectWorkers, LeaveWorker, ListWorkers
from wherry.domain.filter import Counted
from wherry.domain.worker import Directive
from wherry.transport.grpc.rpc import Me, Rpc
from wherry.wire.filter import write_filter
from wherry.wire.looking import read_groups, read_why
from wherry.wire.operators import (
    read_paused_type,
    read_queue,
    read_resumed,
    read_worker,
    write_limits,
)
from wherry.wire.v1 import leases_pb2, operators_pb2, tasks_pb2
from wherry.wire.values import DIRECTIVES, write_duration


def directive_in(response: object) -> Directive | None:
    """Return what a worker is asked to do, if *response* is of a kind that tells."""
    if isinstance(response, leases_pb2.LeaseResponse | leases_pb2.HeartbeatResponse):
        known = response.directive in leases_pb2.Directive.values()
        # A directive that a newer server has is none that we could follow.
        return DIRECTIVES.read(response.directive, option="directive") if known else Directive.NONE
    return None


def of_operators(command: object, me: Me, reason: str | None) -> Rpc[Any] | None:
    """Return the rpc of an operator's command, or of a worker's beat; None for any other."""
    match command:
        case WhyTask():
            return Rpc(
                method="WhyTask",
                request=tasks_pb2.WhyTaskRequest(id=command.id),
                read=read_why,
            )
        case CountTasks():
            asked = tasks_pb2.CountTasksRequest(
                filter=write_filter(command.filter), most=command.most
            )
            if command.within_seconds is not None:
                asked.timeout.CopyFrom(write_duration(command.within_seconds))
            return Rpc(
                method="CountTasks",
                request=asked,
                read=lambda response: Counted(response.tasks, response.capped),
                wait_seconds=command.within_seconds or 0.0,
            )
        case GroupDeadTasks():
            grouped = tasks_pb2.GroupDeadTasksRequest(filter=write_filter(command.filter))
            if command.within_seconds is not None:
                grouped.timeout.CopyFrom(write_duration(command.within_seconds))
            return Rpc(
                method="GroupDeadTasks",
                request=grouped,
                read=read_groups,
                wait_seconds=command.within_seconds or 0.0,
            )
        case ListQueues():
            return Rpc(
                method="ListQueues",
                request=operators_pb2.ListQueuesRequest(),
                read=lambda response: [read_queue(queue) for queue in response.queues],
            )
        case PauseQueue():
            why = reason or command.reason or ""
            return Rpc(
                method="PauseQueue",
                request=operators_pb2.PauseQueueRequest(queue=command.queue, reason=why),
                read=lambda response: response.changed,
            )
        case ResumeQueue():
            return Rpc(
                method="ResumeQueue",
                request=operators_pb2.ResumeQueueRequest(queue=command.queue, reason=reason or ""),
                read=read_resumed,
            )
        case SetQueueLimits():
            return Rpc(
                method="SetQueueLimits",
                request=operators_pb2.SetQueueLimitsRequest(
                    queue=command.queue,
                    limits=None if command.limits is None else write_limits(command.limits),
                    reason=reason or command.reason or "",
                ),
                read=lambda response: response.changed,
            )
        case ListPausedTypes():
            return Rpc(
                method="ListPausedTypes",
                request=operators_pb2.ListPausedTypesRequest(),
                read=lambda response: [read_paused_type(each) for each in response.types],
            )
        case PauseType():
            return Rpc(
                method="PauseType",
                request=operators_pb2.PauseTypeRequest(
                    type=command.type,
                    queue=command.queue,
                    reason=reason or command.reason or "",
                ),
                read=lambda response: response.changed,
            )
        case ResumeType():
            return Rpc(
                method="ResumeType",
                request=operators_pb2.ResumeTypeRequest(
                    type=command.type,
                    queue=command.queue,
                    reason=reason or command.reason or "",
                ),
                read=read_resumed,
            )
        case ListWorkers():
            return Rpc(
                method="ListWorkers",
                request=operators_pb2.ListWorkersRequest(),
                read=lambda response: [read_worker(worker) for worker in response.workers],
            )
        case DirectWorkers():
            return Rpc(
                method="DirectWorkers",
                request=operators_pb2.DirectWorkersRequest(
                    names=command.names,
                    directive=DIRECTIVES.write(command.directive),
                    reason=reason or command.reason or "",
                ),
                read=lambda response: response.told,
            )
        case BeatWorker():
            # A server knows what its workers serve by what they ask for.
            return Rpc(
                method="Heartbeat",
                request=leases_pb2.HeartbeatRequest(
                    worker_id=command.name, instance=command.instance
                ),
                read=lambda response: directive_in(response) or Directive.NONE,
            )
        case LeaveWorker():
            return Rpc(
                method="LeaveWorker",
                request=operators_pb2.LeaveWorkerRequest(
                    worker_id=me.worker, instance=command.instance
                ),
                read=lambda _: None,
            )
        case GetServer():
            return Rpc(
                method="GetServer",
                request=operators_pb2.GetServerRequest(),
                read=lambda response: response.version,
            )
        case _:
            return None
