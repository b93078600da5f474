"""Queues, workers and the server over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import UNSET, UnsetType

from wherry.domain.limits import QueueLimits
from wherry.domain.task import PausedType, QueueDepth, QueuePause
from wherry.domain.worker import WorkerSeen
from wherry.server.http import operator_bodies as bodies
from wherry.server.http.call import Call, Reply
from wherry.server.http.fields import given, read_seconds, write_instant, write_seconds


async def list_queues(call: Call, _query: object) -> Reply:
    """Count what each queue holds."""
    found = await call.service.list_queues(call.caller)
    return Reply(bodies.ListQueuesResponse(queues=[_queue(depth) for depth in found]))


def _queue(depth: QueueDepth) -> bodies.Queue:
    return bodies.Queue(
        name=depth.queue,
        ready=depth.ready,
        delayed=depth.delayed,
        parked=depth.parked,
        leased=depth.leased,
        oldest_due=write_seconds(depth.oldest_due_seconds),
        pause=(
            UNSET
            if depth.paused_at is None
            else _pause(depth.paused_at, depth.paused_by, depth.pause_reason)
        ),
        limits=UNSET if depth.limits is None else _limits(depth.limits),
    )


def _limits(limits: QueueLimits) -> bodies.QueueLimits:
    told = bodies.QueueLimits()
    if limits.max_running is not None:
        told.max_running = limits.max_running
    if limits.rate is not None:
        per = f"{limits.per_seconds or 1.0:.6f}".rstrip("0").rstrip(".") + "s"
        told.rate = bodies.StartRate(starts=limits.rate, per=per, burst=limits.burst or 1)
    return told


def _pause(paused_at: datetime, actor: str | None, reason: str | None) -> bodies.Pause:
    return bodies.Pause(
        paused_at=write_instant(paused_at), actor=given(actor), reason=given(reason)
    )


async def pause_queue(call: Call, body: bodies.PauseQueueRequest) -> Reply:
    """Pause a queue."""
    changed = await call.service.pause_queue(
        call.caller, queue=body.queue, reason=body.reason or None
    )
    return Reply(bodies.PauseQueueResponse(changed=changed))


async def resume_queue(call: Call, body: bodies.ResumeQueueRequest) -> Reply:
    """Resume a queue."""
    resumed = await call.service.resume_queue(
        call.caller, queue=body.queue, reason=body.reason or None
    )
    still = _paused_types(resumed.still_paused)
    return Reply(bodies.ResumeQueueResponse(changed=resumed.changed, still_paused=still))


async def set_queue_limits(call: Call, body: bodies.SetQueueLimitsRequest) -> Reply:
    """Set the limits of a queue."""
    asked = body.limits or bodies.AskedLimits()
    rate = asked.rate
    changed = await call.service.set_queue_limits(
        call.caller,
        queue=body.queue,
        max_running=asked.max_running,
        rate=None if rate is None else rate.starts,
        per=None if rate is None else read_seconds(rate.per, option="per"),
        burst=None if rate is None else rate.burst,
        reason=body.reason or None,
    )
    return Reply(bodies.SetQueueLimitsResponse(changed=changed))


async def list_paused_types(call: Call, _query: object) -> Reply:
    """List the types that are paused."""
    found = await call.service.list_paused_types(call.caller)
    return Reply(bodies.ListPausedTypesResponse(types=_paused_types(found)))


async def pause_type(call: Call, body: bodies.PauseTypeRequest) -> Reply:
    """Pause a type."""
    changed = await call.service.pause_type(
        call.caller, type=body.type, queue=body.queue, reason=body.reason or None
    )
    return Reply(bodies.PauseTypeResponse(changed=changed))


async def resume_type(call: Call, body: bodies.ResumeTypeRequest) -> Reply:
    """Resume a type."""
    resumed = await call.service.resume_type(
        call.caller, type=body.type, queue=body.queue, reason=body.reason or None
    )
    still = _paused_types(resumed.still_paused)
    held = _queue_pause(resumed.queue_pause)
    return Reply(
        bodies.ResumeTypeResponse(changed=resumed.changed, still_paused=still, queue_pause=held)
    )


def _queue_pause(held: QueuePause | None) -> bodies.Pause | UnsetType:
    return UNSET if held is None else _pause(held.paused_at, held.paused_by, held.reason)


async def list_workers(call: Call, _query: object) -> Reply:
    """List workers."""
    found = await call.service.list_workers(call.caller)
    return Reply(bodies.ListWorkersResponse(workers=[_worker(worker) for worker in found]))


def _worker(worker: WorkerSeen) -> bodies.Worker:
    return bodies.Worker(
        instance=worker.instance,
        name=worker.name,
        host=worker.host,
        queues=list(worker.queues or ()),
        types=list(worker.types or ()),
        started_at=write_instant(worker.started_at),
        beat_at=write_instant(worker.beat_at),
        alive=worker.alive,
        directive=worker.directive,
        pid=UNSET if worker.pid is None else worker.pid,
        slots=UNSET if worker.slots is None else worker.slots,
        version=given(worker.version),
        memory_bytes=UNSET if worker.memory_bytes is None else worker.memory_bytes,
        deaf_since=UNSET if worker.deaf_since is None else write_instant(worker.deaf_since),
    )


async def direct_workers(call: Call, body: bodies.DirectWorkersRequest) -> Reply:
    """Tell workers what to do."""
    told = await call.service.direct_workers(
        call.caller, names=body.names, directive=body.directive, reason=body.reason or None
    )
    return Reply(bodies.DirectWorkersResponse(told=told))


async def leave_worker(call: Call, body: bodies.LeaveWorkerRequest) -> Reply:
    """A worker says goodbye."""
    await call.service.leave_worker(call.caller, worker=body.worker_id, instance=body.instance)
    return Reply(bodies.LeaveWorkerResponse())


async def get_server(call: Call, _query: object) -> Reply:
    """Tell what this server is."""
    info = await call.service.server_info(call.caller)
    answer = bodies.GetServerResponse(
        version=info.version,
        batch_limit=info.batch_limit,
        request_limit_bytes=info.request_limit_bytes,
        longest_wait=write_seconds(info.longest_wait_seconds) or "0s",
    )
    return Reply(answer)


def _paused_types(found: Iterable[PausedType]) -> list[bodies.PausedType]:
    return [
        bodies.PausedType(
            type=each.type,
            queue=given(each.queue),
            pause=_pause(each.paused_at, each.paused_by, each.reason),
        )
        for each in found
    ]
