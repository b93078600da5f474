"""What people ask about tasks, on the wire."""

from __future__ import annotations

from datetime import datetime

from wherry.domain.filter import DeadGroup, DeadGroups
from wherry.domain.why import Reason, Why
from wherry.wire.v1 import tasks_pb2 as pb
from wherry.wire.values import STATES, read_instant, write_instant


def write_groups(found: DeadGroups) -> pb.GroupDeadTasksResponse:
    """Return groups of dead tasks."""
    groups = [
        pb.DeadGroup(
            fingerprint=group.fingerprint,
            type=group.type,
            tasks=group.tasks,
            first_at=write_instant(group.first_at),
            last_at=write_instant(group.last_at),
            sample_id=group.sample_id,
            sample_error=group.sample_error,
            queues=group.queues,
            spread=group.spread,
        )
        for group in found.groups
    ]
    return pb.GroupDeadTasksResponse(
        groups=groups,
        capped=found.capped,
        since=None if found.since is None else write_instant(found.since),
    )


def read_groups(message: pb.GroupDeadTasksResponse) -> DeadGroups:
    """Return groups of dead tasks."""
    groups = (
        DeadGroup(
            fingerprint=group.fingerprint,
            type=group.type,
            tasks=group.tasks,
            first_at=read_instant(group.first_at, option="first_at"),
            last_at=read_instant(group.last_at, option="last_at"),
            sample_id=group.sample_id,
            sample_error=group.sample_error,
            queues=tuple(group.queues),
            spread=tuple(group.spread),
        )
        for group in message.groups
    )
    since = read_instant(message.since, option="since") if message.HasField("since") else None
    return DeadGroups(tuple(groups), message.capped, since)


def write_why(why: Why) -> pb.WhyTaskResponse:
    """Return why a task is where it is."""
    message = pb.WhyTaskResponse(
        id=why.id,
        queue=why.queue,
        reasons=[_write_reason(reason) for reason in why.reasons],
    )
    if why.state is not None:
        message.state = STATES.write(why.state)
    if why.at is not None:
        message.at.CopyFrom(write_instant(why.at))
    return message


def _write_reason(reason: Reason) -> pb.Reason:
    message = pb.Reason(code=reason.code, text=reason.text, advice=reason.advice)
    if reason.at is not None:
        message.at.CopyFrom(write_instant(reason.at))
    return message


def read_why(message: pb.WhyTaskResponse) -> Why:
    """Return why a task is where it is."""
    return Why(
        message.id,
        STATES.read(message.state, option="state") if message.state else None,
        tuple(
            Reason(reason.code, reason.text, reason.advice, _moment(reason))
            for reason in message.reasons
        ),
        _moment(message),
        message.queue if message.HasField("queue") else None,
    )


def _moment(message: pb.WhyTaskResponse | pb.Reason) -> datetime | None:
    return read_instant(message.at, option="at") if message.HasField("at") else None
