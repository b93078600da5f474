"""Which rpc carries which command, and how its answer is read; no I/O here.

An rpc is made anew for each try, since the time left of a lease counts from before it was sent.
What is not in here cannot be asked of a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, TypeVar, cast

from wherry.commands.audit import Audited
from wherry.commands.base import Command
from wherry.commands.copying import CopyTask
from wherry.commands.finding import ListTasks
from wherry.commands.leases import CompleteTasks, FailTasks, GiveBackTasks, HeartbeatLeases
from wherry.commands.remote import PollTasks
from wherry.commands.replanning import ReprioritizeTasks, RescheduleTasks
from wherry.commands.tasks import (
    CancelTasks,
    EnqueueTasks,
    GetTask,
    PurgeTasks,
    RequeueTasks,
)
from wherry.domain.lease import Lease, LeaseRef, Reported
from wherry.domain.outcome import Outcome
from wherry.domain.task import (
    Canceled,
    Enqueued,
    Page,
    Purged,
    Replanned,
    RequeueAnswer,
    Requeued,
    Task,
)
from wherry.errors import ConfigError, InvalidTask
from wherry.transport.grpc.operator_rpcs import of_operators
from wherry.transport.grpc.rpc import Me, Rpc
from wherry.transport.grpc.schedule_rpcs import of_schedules
from wherry.wire.filter import read_place, write_filter, write_place
from wherry.wire.leases import read_leases, write_outcome
from wherry.wire.status import read_problem
from wherry.wire.tasks import (
    read_enqueued,
    read_requeued,
    read_task,
    write_spec,
)
from wherry.wire.v1 import leases_pb2, tasks_pb2
from wherry.wire.values import (
    CANCELED,
    PURGED,
    REPLANNED,
    REPORTED,
    read_duration,
    write_duration,
    write_instant,
)

R = TypeVar("R")

_RESENT_WITHIN_SECONDS = 300.0


def rpc_of(command: Command[R], *, worker: str = "", instance: str = "") -> Rpc[R]:
    """Return the rpc that carries *command*.

    *worker*, *instance*: who beats and says goodbye. Raises ConfigError for what no server can be
    asked.
    """
    made = _rpc_of(command, Me(worker, instance), None)
    if made is None:
        raise ConfigError(
            f"{_name_of(command)} is the server's own work, or its operator's: this needs the"
            " database's own DSN"
        )
    # Each branch knows its own command's answer, which the type checkers cannot.
    return cast("Rpc[R]", made)


def _name_of(command: object) -> str:
    """Return what people know *command* by."""
    kind = type(command)
    part = kind.__module__.rpartition(".")[2]
    return {"maintenance": "reap", "audit": "reap", "tokens": "token"}.get(part, kind.__name__)


def _rpc_of(command: object, me: Me, reason: str | None) -> Rpc[Any] | None:
    match command:
        case EnqueueTasks():
            return _enqueue(command)
        case GetTask() | ListTasks() | CancelTasks() | RequeueTasks() | PurgeTasks():
            return _of_tasks(command, reason)
        case CopyTask():
            return _copy(command, reason)
        case ReprioritizeTasks() | RescheduleTasks():
            return _replan(command, reason)
        case PollTasks():
            return _poll(command)
        case HeartbeatLeases():
            return _heartbeat(command, me)
        case CompleteTasks() | FailTasks() | GiveBackTasks():
            return _report(command.outcomes)
        case Audited():
            # A server writes its audit itself, by the name of the caller's token.
            audited: Audited[Any] = command  # pyright: ignore[reportUnknownVariableType]
            return _rpc_of(audited.inner, me, audited.actor.reason)
        case _:
            return of_schedules(command, me, reason) or of_operators(command, me, reason)


# ── tasks ──


def _enqueue(command: EnqueueTasks) -> Rpc[Any]:
    def read(response: tasks_pb2.EnqueueBatchResponse) -> list[Any]:
        for result in response.results:
            if result.HasField("problem"):
                raise read_problem(result.problem)
        return [read_enqueued(result.task) for result in response.results]

    return Rpc(
        method="EnqueueBatch",
        request=tasks_pb2.EnqueueBatchRequest(
            tasks=[write_spec(spec) for spec in command.specs],
            all_or_nothing=True,
            notify=command.notify,
        ),
        read=read,
        # Only a key tells the server that it is the same task once more, while it names the task.
        repeatable=all(
            spec.key is not None
            and (spec.key_ttl_seconds is None or spec.key_ttl_seconds >= _RESENT_WITHIN_SECONDS)
            for spec in command.specs
        ),
    )


def _of_tasks(
    command: GetTask | ListTasks | CancelTasks | RequeueTasks | PurgeTasks, reason: str | None
) -> Rpc[Any]:
    match command:
        case GetTask():

            def read_one(response: tasks_pb2.GetTaskResponse) -> Task:
                return read_task(response.task)

            named = tasks_pb2.GetTaskRequest()
            if command.id is not None:
                named.id = command.id
            else:
                named.key.CopyFrom(
                    tasks_pb2.TaskKey(queue=command.queue or "", key=command.key or "")
                )
            return Rpc(method="GetTask", request=named, read=read_one, if_missing=lambda: None)
        case ListTasks():
            asked = tasks_pb2.ListTasksRequest(
                filter=write_filter(command.filter),
                page_size=command.limit,
                page_token=write_place(command.after, command.before),
            )
            if command.within_seconds is not None:
                asked.timeout.CopyFrom(write_duration(command.within_seconds))

            def read_page(response: tasks_pb2.ListTasksResponse) -> Page:
                tasks = tuple(read_task(task) for task in response.tasks)
                after = read_place(response.next_page_token)["after"]
                return Page(tasks, after, read_place(response.previous_page_token)["before"])

            return Rpc(
                method="ListTasks",
                request=asked,
                read=read_page,
                wait_seconds=command.within_seconds or 0.0,
            )
        case CancelTasks(ids=ids):

            def read_canceled(response: tasks_pb2.CancelTasksResponse) -> list[Canceled]:
                answers = ((t.id, CANCELED.read(t.answer, option="answer")) for t in response.tasks)
                return _in_order(ids, answers, missing=lambda _: Canceled.UNKNOWN)

            return Rpc(
                method="CancelTasks",
                request=tasks_pb2.CancelTasksRequest(
                    selection=_selection(ids), reason=reason or command.reason or ""
                ),
                read=read_canceled,
            )
        case RequeueTasks(ids=ids):

            def read_all_requeued(response: tasks_pb2.RequeueTasksResponse) -> list[Requeued]:
                answers = ((t.id, read_requeued(t)) for t in response.tasks)
                return _in_order(
                    ids, answers, missing=lambda id_: Requeued(id_, RequeueAnswer.UNKNOWN)
                )

            back = tasks_pb2.RequeueTasksRequest(
                selection=_selection(ids),
                without_key=command.without_key,
                reason=reason or "",
                per_second=command.per_second,
                to_queue=command.to_queue,
                merge_payload=command.merge_payload,
            )
            if command.delay_seconds:
                back.delay.CopyFrom(write_duration(command.delay_seconds))
            return Rpc(method="RequeueTasks", request=back, read=read_all_requeued)
        case PurgeTasks(ids=ids):

            def read_purged(response: tasks_pb2.PurgeTasksResponse) -> list[Purged]:
                answers = ((t.id, PURGED.read(t.answer, option="answer")) for t in response.tasks)
                return _in_order(ids, answers, missing=lambda _: Purged.UNKNOWN)

            return Rpc(
                method="PurgeTasks",
                request=tasks_pb2.PurgeTasksRequest(selection=_selection(ids), reason=reason or ""),
                read=read_purged,
            )


def _copy(command: CopyTask, reason: str | None) -> Rpc[Any]:
    asked = tasks_pb2.CopyTaskRequest(
        id=command.id,
        queue=command.queue,
        payload=command.payload,
        purge=command.purge,
        reason=reason or command.reason or "",
    )
    if command.delay_seconds is not None:
        asked.delay.CopyFrom(write_duration(command.delay_seconds))

    def read(response: tasks_pb2.CopyTaskResponse) -> Enqueued:
        return Enqueued(response.id, True)

    # Nothing tells the server that it is the same one once more.
    return Rpc(method="CopyTask", request=asked, read=read, repeatable=False)


def _replan(command: ReprioritizeTasks | RescheduleTasks, reason: str | None) -> Rpc[Any]:
    ids = command.ids

    def read(
        response: tasks_pb2.ReprioritizeTasksResponse | tasks_pb2.RescheduleTasksResponse,
    ) -> list[Replanned]:
        answers = ((t.id, REPLANNED.read(t.answer, option="answer")) for t in response.tasks)
        return _in_order(ids, answers, missing=lambda _: Replanned.UNKNOWN)

    match command:
        case ReprioritizeTasks():
            levels = tasks_pb2.ReprioritizeTasksRequest(
                selection=_selection(ids), priority=command.priority, reason=reason or ""
            )
            return Rpc(method="ReprioritizeTasks", request=levels, read=read)
        case RescheduleTasks():
            times = tasks_pb2.RescheduleTasksRequest(selection=_selection(ids), reason=reason or "")
            if command.run_after is None:
                times.delay.CopyFrom(write_duration(command.delay_seconds))
            else:
                times.run_after.CopyFrom(write_instant(command.run_after))
            return Rpc(method="RescheduleTasks", request=times, read=read)


def _selection(ids: Sequence[int]) -> tasks_pb2.Selection:
    named = sorted(set(ids))
    return tasks_pb2.Selection(ids=named, page_size=max(1, len(named)))


_A = TypeVar("_A")


def _in_order(
    ids: Sequence[int], answers: Iterable[tuple[int, _A]], *, missing: Callable[[int], _A]
) -> list[_A]:
    found = dict(answers)
    return [found[id_] if id_ in found else missing(id_) for id_ in ids]


# ── leases ──


def _poll(command: PollTasks) -> Rpc[Any]:
    request = leases_pb2.LeaseRequest(
        worker_id=command.worker,
        instance=command.instance or "",
        queues=command.queues,
        types=command.types or (),
        max_tasks=command.limit,
        max_last=command.limit_last,
        lease_duration=write_duration(command.lease_seconds),
        wait=write_duration(command.wait_seconds),
    )
    if command.confirm_seconds is not None:
        request.confirm_within.CopyFrom(write_duration(command.confirm_seconds))
    asked_at = monotonic()

    def read(response: leases_pb2.LeaseResponse) -> list[Lease]:
        leases = read_leases(response, asked_at=asked_at)
        if command.confirm_seconds is not None:
            # Until they are confirmed they hold no longer than that. The server counts from a
            # moment before it said how long we had waited: hence not all of it.
            waited = read_duration(response.waited, option="waited")
            goes_back_at = asked_at + waited + command.confirm_seconds * 0.9
            for lease in leases:
                lease.deadline = min(lease.deadline, goes_back_at)
        return leases

    return Rpc(
        method="Lease",
        request=request,
        read=read,
        repeatable=False,
        wait_seconds=command.wait_seconds,
    )


def _heartbeat(command: HeartbeatLeases, me: Me) -> Rpc[Any]:
    asked_at = monotonic()

    def read(response: leases_pb2.HeartbeatResponse) -> list[Reported]:
        return [
            _beaten(lease, beat, asked_at=asked_at)
            for lease, beat in zip(command.leases, response.beats, strict=True)
        ]

    return Rpc(
        method="Heartbeat",
        request=leases_pb2.HeartbeatRequest(
            leases=[lease.lease_id for lease in command.leases],
            extend_by=write_duration(command.extend_seconds),
            worker_id=me.worker,
            instance=me.instance,
        ),
        read=read,
    )


def _beaten(lease: LeaseRef, beat: leases_pb2.Beat, *, asked_at: float) -> Reported:
    if beat.answer == leases_pb2.REPORTED_INVALID:
        # Not this server's, or of a queue that is not ours any more: it cannot be kept.
        return Reported.LOST
    answer = REPORTED.read(beat.answer, option="answer")
    if beat.HasField("remaining"):
        holds_until = asked_at + read_duration(beat.remaining, option="remaining")
        lease.deadline = max(lease.deadline, holds_until)
    return answer


def _report(outcomes: Sequence[Outcome]) -> Rpc[Any]:
    def read(response: leases_pb2.ReportResponse) -> list[Reported]:
        return [
            _reported(outcome, answer, alone=len(outcomes) == 1)
            for outcome, answer in zip(outcomes, response.answers, strict=True)
        ]

    return Rpc(
        method="Report",
        request=leases_pb2.ReportRequest(outcomes=[write_outcome(o) for o in outcomes]),
        read=read,
    )


def _reported(outcome: Outcome, message: leases_pb2.ReportAnswer, *, alone: bool) -> Reported:
    if message.answer != leases_pb2.REPORTED_INVALID:
        return REPORTED.read(message.answer, option="answer")
    problem = read_problem(message.problem)
    if alone or isinstance(problem, InvalidTask):
        # Whoever reports several sends them apart then; what was settled is "already done".
        raise problem
    # The right to this queue was taken away, or the server is in trouble: its neighbours are
    # settled all the same, and this one is worth another try as long as its lease holds.
    return Reported.BUSY if outcome.lease.remaining > 0 else Reported.LOST
