"""What people ask about tasks, on the wire."""

from __future__ import annotations

from datetime import datetime

from wherry.domain.why import Reason, Why
from wherry.wire.v1 import tasks_pb2 as pb
from wherry.wire.values import STATES, read_instant, write_instant


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
