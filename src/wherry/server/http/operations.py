"""The table of everything that HTTP can be asked: it routes requests and writes the document.

A verb stands here once. Its path is the wire's (docs/reference/http.md); its body and answer have
the fields of the message that gRPC has for it, which a test compares.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from wherry.server.http import change_bodies as changes
from wherry.server.http import (
    change_calls,
    finding_calls,
    lease_calls,
    looking_calls,
    operator_calls,
    task_calls,
)
from wherry.server.http import filter_bodies as filters
from wherry.server.http import lease_bodies as leases
from wherry.server.http import looking_bodies as looking
from wherry.server.http import operator_bodies as operators
from wherry.server.http import task_bodies as tasks
from wherry.server.http.bodies import Answer, Request
from wherry.server.http.call import Call, Reply

PREFIX: Final = "/api/v1"


@dataclass(frozen=True, slots=True)
class Operation:
    """One verb: how it is asked for, what goes in and comes out, and what carries it out.

    `asked` is a body for POST, the query's parameters for GET. `statuses` are those of its own,
    beside the ones that every operation may answer.
    """

    rpc: str
    method: str
    path: str
    asked: type[Request]
    answer: type[Answer]
    call: Callable[[Call, Any], Coroutine[Any, Any, Reply]]
    summary: str
    statuses: tuple[int, ...] = ()
    waits: bool = False

    @property
    def name(self) -> str:
        """Return the operation's name in the document: the rpc's, but unique."""
        return "FindTask" if self.path.endswith(":find") else self.rpc

    @property
    def has_body(self) -> bool:
        """Whether it is asked for with a body."""
        return self.method == "POST"


OPERATIONS: Final = (
    Operation(
        "Enqueue",
        "POST",
        "/tasks",
        tasks.EnqueueRequest,
        tasks.EnqueueResponse,
        task_calls.enqueue,
        "Store one task. A key that already names a task is answered with that task's id.",
        (201,),
    ),
    Operation(
        "EnqueueBatch",
        "POST",
        "/tasks:batch",
        tasks.EnqueueBatchRequest,
        tasks.EnqueueBatchResponse,
        task_calls.enqueue_batch,
        "Store many tasks; one result for each, in order. A bad one spoils no other.",
    ),
    Operation(
        "ListTasks",
        "GET",
        "/tasks",
        filters.ListTasksQuery,
        filters.ListTasksResponse,
        finding_calls.list_tasks,
        "List tasks, newest first and without their histories.",
        (504,),
    ),
    Operation(
        "CountTasks",
        "GET",
        "/tasks:count",
        filters.CountTasksQuery,
        filters.CountTasksResponse,
        finding_calls.count_tasks,
        "Count tasks, up to a number.",
        (504,),
    ),
    Operation(
        "GetTask",
        "GET",
        "/tasks:find",
        tasks.TaskKey,
        tasks.GetTaskResponse,
        task_calls.find_task,
        "Read the task that an idempotency key names, with its history.",
        (404,),
    ),
    Operation(
        "CancelTask",
        "POST",
        "/tasks/{id}:cancel",
        changes.CancelTaskRequest,
        changes.CancelTaskResponse,
        change_calls.cancel_task,
        "Cancel one task: at once if it is queued, else its worker is told.",
        (404,),
    ),
    Operation(
        "RequeueTask",
        "POST",
        "/tasks/{id}:requeue",
        changes.RequeueTaskRequest,
        changes.RequeueTaskResponse,
        change_calls.requeue_task,
        "Put one finished task back; its attempts start again.",
        (404, 409),
    ),
    Operation(
        "CopyTask",
        "POST",
        "/tasks/{id}:copy",
        changes.CopyTaskRequest,
        changes.CopyTaskResponse,
        change_calls.copy_task,
        "Store a new task with the options of another one, all but its key.",
        (201, 404, 409),
    ),
    Operation(
        "GetTask",
        "GET",
        "/tasks/{id}",
        operators.NoQuery,
        tasks.GetTaskResponse,
        task_calls.get_task,
        "Read a task with its history.",
        (404,),
    ),
    Operation(
        "WhyTask",
        "GET",
        "/tasks/{id}/why",
        operators.NoQuery,
        looking.WhyTaskResponse,
        looking_calls.why_task,
        "Tell why a task is where it is, and what to do about it.",
    ),
    Operation(
        "GroupDeadTasks",
        "GET",
        "/tasks:groups",
        looking.GroupDeadTasksQuery,
        looking.GroupDeadTasksResponse,
        looking_calls.group_dead_tasks,
        "Group dead and failed tasks by what their errors have in common.",
        (504,),
    ),
    Operation(
        "CancelTasks",
        "POST",
        "/tasks:cancel",
        changes.CancelTasksRequest,
        changes.CancelTasksResponse,
        change_calls.cancel_tasks,
        "Cancel one page of the tasks that are named or match.",
        (504,),
    ),
    Operation(
        "RequeueTasks",
        "POST",
        "/tasks:requeue",
        changes.RequeueTasksRequest,
        changes.RequeueTasksResponse,
        change_calls.requeue_tasks,
        "Put back one page of the finished tasks that are named or match.",
        (504,),
    ),
    Operation(
        "ReprioritizeTasks",
        "POST",
        "/tasks:reprioritize",
        changes.ReprioritizeTasksRequest,
        changes.ReprioritizeTasksResponse,
        change_calls.reprioritize_tasks,
        "Give another priority to one page of the queued tasks that are named or match.",
        (504,),
    ),
    Operation(
        "RescheduleTasks",
        "POST",
        "/tasks:reschedule",
        changes.RescheduleTasksRequest,
        changes.RescheduleTasksResponse,
        change_calls.reschedule_tasks,
        "Let one page of the queued tasks that are named or match run at another time.",
        (504,),
    ),
    Operation(
        "PurgeTasks",
        "POST",
        "/tasks:purge",
        changes.PurgeTasksRequest,
        changes.PurgeTasksResponse,
        change_calls.purge_tasks,
        "Delete one page of the finished tasks that are named or match, with history and keys.",
        (504,),
    ),
    Operation(
        "Lease",
        "POST",
        "/leases",
        leases.LeaseRequest,
        leases.LeaseResponse,
        lease_calls.lease,
        "Lease tasks, waiting for one if asked to. Never more than were asked for.",
        waits=True,
    ),
    Operation(
        "Heartbeat",
        "POST",
        "/leases:heartbeat",
        leases.HeartbeatRequest,
        leases.HeartbeatResponse,
        lease_calls.heartbeat,
        "Extend leases; tells of each whether it holds, is to be let go, or is lost.",
    ),
    Operation(
        "Complete",
        "POST",
        "/leases:complete",
        leases.CompleteRequest,
        leases.CompleteResponse,
        lease_calls.complete,
        "Finish a leased task.",
        (409,),
    ),
    Operation(
        "Fail",
        "POST",
        "/leases:fail",
        leases.FailRequest,
        leases.FailResponse,
        lease_calls.fail,
        "Record a failed attempt.",
        (409,),
    ),
    Operation(
        "Snooze",
        "POST",
        "/leases:snooze",
        leases.SnoozeRequest,
        leases.SnoozeResponse,
        lease_calls.snooze,
        "Put a leased task back for a while; the attempt is not counted.",
        (409,),
    ),
    Operation(
        "Release",
        "POST",
        "/leases:release",
        leases.ReleaseRequest,
        leases.ReleaseResponse,
        lease_calls.release,
        "Give back a leased task that never started; the attempt is not counted.",
        (409,),
    ),
    Operation(
        "Report",
        "POST",
        "/leases:report",
        leases.ReportRequest,
        leases.ReportResponse,
        lease_calls.report,
        "Report the outcomes of many leases at once; one answer for each, in order.",
    ),
    Operation(
        "ListQueues",
        "GET",
        "/queues",
        operators.NoQuery,
        operators.ListQueuesResponse,
        operator_calls.list_queues,
        "Count what each queue holds.",
    ),
    Operation(
        "PauseQueue",
        "POST",
        "/queues:pause",
        operators.PauseQueueRequest,
        operators.PauseQueueResponse,
        operator_calls.pause_queue,
        "Let no task of a queue be leased until it is resumed.",
    ),
    Operation(
        "ResumeQueue",
        "POST",
        "/queues:resume",
        operators.ResumeQueueRequest,
        operators.ResumeQueueResponse,
        operator_calls.resume_queue,
        "Let a paused queue's tasks be leased again.",
    ),
    Operation(
        "SetQueueLimits",
        "POST",
        "/queues:limit",
        operators.SetQueueLimitsRequest,
        operators.SetQueueLimitsResponse,
        operator_calls.set_queue_limits,
        "Let only so many tasks of a queue be leased at once, or start in a time.",
    ),
    Operation(
        "ListPausedTypes",
        "GET",
        "/paused-types",
        operators.NoQuery,
        operators.ListPausedTypesResponse,
        operator_calls.list_paused_types,
        "List the types that are paused.",
    ),
    Operation(
        "PauseType",
        "POST",
        "/types:pause",
        operators.PauseTypeRequest,
        operators.PauseTypeResponse,
        operator_calls.pause_type,
        "Let no task of a type be leased, in one queue or in all, until it is resumed.",
    ),
    Operation(
        "ResumeType",
        "POST",
        "/types:resume",
        operators.ResumeTypeRequest,
        operators.ResumeTypeResponse,
        operator_calls.resume_type,
        "Let a paused type's tasks be leased again.",
    ),
    Operation(
        "ListWorkers",
        "GET",
        "/workers",
        operators.NoQuery,
        operators.ListWorkersResponse,
        operator_calls.list_workers,
        "List the workers that were heard of lately.",
    ),
    Operation(
        "DirectWorkers",
        "POST",
        "/workers:direct",
        operators.DirectWorkersRequest,
        operators.DirectWorkersResponse,
        operator_calls.direct_workers,
        "Tell workers, by name, to drain, to stop, or to go on.",
    ),
    Operation(
        "LeaveWorker",
        "POST",
        "/workers:leave",
        operators.LeaveWorkerRequest,
        operators.LeaveWorkerResponse,
        operator_calls.leave_worker,
        "A worker says goodbye.",
    ),
    Operation(
        "GetServer",
        "GET",
        "/server",
        operators.NoQuery,
        operators.GetServerResponse,
        operator_calls.get_server,
        "Tell what this server is and what it can do.",
    ),
)
