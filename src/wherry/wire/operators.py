"""Queues and workers on the wire."""

from __future__ import annotations

from typing import Any

from wherry.domain.limits import QueueLimits
from wherry.domain.task import PausedType, QueueDepth, QueuePause, Resumed
from wherry.domain.worker import WorkerSeen
from wherry.wire.v1 import operators_pb2 as pb
from wherry.wire.values import (
    DIRECTIVES,
    read_duration,
    read_instant,
    write_duration,
    write_instant,
)


def write_queue(depth: QueueDepth) -> pb.Queue:
    """Return what a queue holds."""
    message = pb.Queue(
        name=depth.queue,
        ready=depth.ready,
        delayed=depth.delayed,
        parked=depth.parked,
        leased=depth.leased,
    )
    if depth.oldest_due_seconds is not None:
        # A clock that was set back may have made it negative.
        message.oldest_due.CopyFrom(write_duration(max(0.0, depth.oldest_due_seconds)))
    if depth.paused_at is not None:
        pause = pb.Pause(
            paused_at=write_instant(depth.paused_at),
            actor=depth.paused_by or "",
            reason=depth.pause_reason or "",
        )
        message.pause.CopyFrom(pause)
    if depth.limits is not None:
        message.limits.CopyFrom(write_limits(depth.limits))
    return message


def write_limits(limits: QueueLimits) -> pb.QueueLimits:
    """Return the limits of a queue."""
    message = pb.QueueLimits(max_running=limits.max_running)
    if limits.rate is not None:
        per = write_duration(limits.per_seconds or 1.0)
        message.rate.CopyFrom(pb.StartRate(starts=limits.rate, per=per, burst=limits.burst))
    return message


def read_limits(message: pb.QueueLimits) -> dict[str, Any]:
    """Return the limits of a queue as `QueueLimits.of` takes them."""
    asked: dict[str, Any] = {}
    if message.HasField("max_running"):
        asked["max_running"] = message.max_running
    if message.HasField("rate"):
        rate = message.rate
        asked["rate"] = rate.starts
        if rate.HasField("per"):
            asked["per"] = read_duration(rate.per, option="per")
        if rate.HasField("burst"):
            asked["burst"] = rate.burst
    return asked


def read_queue(message: pb.Queue) -> QueueDepth:
    """Return what a queue holds."""
    paused = message.HasField("pause")
    return QueueDepth(
        message.name,
        message.ready,
        message.delayed,
        message.parked,
        message.leased,
        (
            read_duration(message.oldest_due, option="oldest_due")
            if message.HasField("oldest_due")
            else None
        ),
        paused_at=read_instant(message.pause.paused_at, option="paused_at") if paused else None,
        paused_by=message.pause.actor or None,
        pause_reason=message.pause.reason or None,
        limits=QueueLimits.of(**read_limits(message.limits)),
    )


def write_paused_type(paused: PausedType) -> pb.PausedType:
    """Return a type that is paused."""
    pause = pb.Pause(
        paused_at=write_instant(paused.paused_at),
        actor=paused.paused_by or "",
        reason=paused.reason or "",
    )
    return pb.PausedType(type=paused.type, queue=paused.queue, pause=pause)


def read_paused_type(message: pb.PausedType) -> PausedType:
    """Return a type that is paused."""
    return PausedType(
        message.type,
        message.queue if message.HasField("queue") else None,
        read_instant(message.pause.paused_at, option="paused_at"),
        message.pause.actor or None,
        message.pause.reason or None,
    )


def write_resumed_queue(resumed: Resumed) -> pb.ResumeQueueResponse:
    """Return what became of a queue, and what stays paused in it."""
    still = [write_paused_type(each) for each in resumed.still_paused]
    return pb.ResumeQueueResponse(changed=resumed.changed, still_paused=still)


def write_resumed_type(resumed: Resumed) -> pb.ResumeTypeResponse:
    """Return what became of a type, and what holds all the same."""
    message = pb.ResumeTypeResponse(
        changed=resumed.changed,
        still_paused=[write_paused_type(each) for each in resumed.still_paused],
    )
    if (held := resumed.queue_pause) is not None:
        pause = pb.Pause(
            paused_at=write_instant(held.paused_at),
            actor=held.paused_by or "",
            reason=held.reason or "",
        )
        message.queue_pause.CopyFrom(pause)
    return message


def read_resumed(message: pb.ResumeQueueResponse | pb.ResumeTypeResponse) -> Resumed:
    """Return what became of a queue or a type, and what holds all the same."""
    still = tuple(read_paused_type(each) for each in message.still_paused)
    if isinstance(message, pb.ResumeQueueResponse) or not message.HasField("queue_pause"):
        return Resumed(message.changed, still)
    held = message.queue_pause
    paused_at = read_instant(held.paused_at, option="paused_at")
    return Resumed(
        message.changed, still, QueuePause(paused_at, held.actor or None, held.reason or None)
    )


def write_worker(seen: WorkerSeen) -> pb.Worker:
    """Return a worker as it was last heard of."""
    return pb.Worker(
        instance=seen.instance,
        name=seen.name,
        host=seen.host,
        pid=seen.pid or 0,
        queues=seen.queues or (),
        types=seen.types or (),
        started_at=write_instant(seen.started_at),
        beat_at=write_instant(seen.beat_at),
        alive=seen.alive,
        directive=DIRECTIVES.write(seen.directive),
        slots=seen.slots,
        version=seen.version,
        memory_bytes=seen.memory_bytes,
        deaf_since=None if seen.deaf_since is None else write_instant(seen.deaf_since),
    )


def read_worker(message: pb.Worker) -> WorkerSeen:
    """Return a worker as it was last heard of."""
    return WorkerSeen(
        instance=message.instance,
        name=message.name,
        host=message.host,
        pid=message.pid or None,
        queues=tuple(message.queues) or None,
        types=tuple(message.types) or None,
        started_at=read_instant(message.started_at, option="started_at"),
        beat_at=read_instant(message.beat_at, option="beat_at"),
        alive=message.alive,
        directive=DIRECTIVES.read(message.directive, option="directive"),
        slots=message.slots if message.HasField("slots") else None,
        version=message.version if message.HasField("version") else None,
        memory_bytes=message.memory_bytes if message.HasField("memory_bytes") else None,
        deaf_since=(
            read_instant(message.deaf_since, option="deaf_since")
            if message.HasField("deaf_since")
            else None
        ),
    )
