"""Tasks on the wire: what a client writes the server reads, and the other way round.

The server gets an enqueue unchecked: what is said of it goes on as options, by their names in the
library, and is checked where every other entrance is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message

from wherry.domain.options import TaskSpec
from wherry.domain.retry import from_json
from wherry.domain.stored import decode
from wherry.domain.task import Attempt, Enqueued, Requeued, Task
from wherry.errors import DecodeError, InvalidOption
from wherry.wire.v1 import tasks_pb2 as pb
from wherry.wire.values import (
    REQUEUED,
    STATES,
    policy_to_store,
    read_duration,
    read_instant,
    read_policy,
    write_duration,
    write_instant,
    write_policy,
    write_stored_policy,
)


def write_spec(spec: TaskSpec) -> pb.EnqueueRequest:
    """Return the request that stores *spec*."""
    request = pb.EnqueueRequest(key=spec.key)
    write_declared(request, spec)
    if spec.delay_seconds is not None:
        request.delay.CopyFrom(write_duration(spec.delay_seconds))
    elif spec.run_after is not None:
        request.run_after.CopyFrom(write_instant(spec.run_after))
    if spec.key_ttl_seconds is not None:
        request.key_ttl.CopyFrom(write_duration(spec.key_ttl_seconds))
    return request


def write_declared(message: Any, spec: TaskSpec) -> None:
    """Write type, payload and what a type may declare of *spec* into a message that has them."""
    message.queue, message.type, message.payload = spec.queue, spec.type, spec.payload
    message.priority, message.max_attempts = spec.priority, spec.max_attempts
    message.tags.extend(spec.tags)
    message.headers.update(spec.headers)
    if spec.retry is not None:
        message.retry.CopyFrom(write_policy(from_json(spec.retry)))
    for name in _DECLARED_LENGTHS:
        seconds = getattr(spec, f"{name}_seconds")
        if seconds is not None:
            getattr(message, name).CopyFrom(write_duration(seconds))


_DECLARED_LENGTHS = ("timeout", "ttl")


def _has(message: Message, field: str) -> bool:
    return message.HasField(field)


def _text(message: Message, field: str) -> str | None:
    """Return an optional text: one that is empty is not the same as none."""
    return getattr(message, field) if message.HasField(field) else None


def read_enqueue(
    request: pb.EnqueueRequest, *, index: int | None = None
) -> tuple[str, str, dict[str, Any]]:
    """Return the type, the payload's text, and the options that were given, all unchecked.

    Raises InvalidOption for a length or an instant that is none.
    """
    options = read_declared_options(request, index=index)
    # Here the contract cannot tell an empty name from none.
    if request.queue:
        options["queue"] = request.queue
    if _has(request, "key"):
        options["key"] = request.key
    if _has(request, "key_ttl"):
        options["key_ttl"] = read_duration(request.key_ttl, option="key_ttl", index=index)
    match request.WhichOneof("due"):
        case "delay":
            options["delay"] = read_duration(request.delay, option="delay", index=index)
        case "run_after":
            options["run_after"] = read_instant(request.run_after, option="run_after", index=index)
        case _:
            pass
    return request.type, request.payload, options


def read_declared_options(message: Any, *, index: int | None = None) -> dict[str, Any]:
    """Return those options of a message that a type may declare too, unchecked; but its queue."""
    options: dict[str, Any] = {}
    for name in ("priority", "max_attempts"):
        if _has(message, name):
            options[name] = getattr(message, name)
    if message.HasField("retry"):
        options["retry"] = read_policy(message.retry, index=index)
    for name in _DECLARED_LENGTHS:
        if _has(message, name):
            options[name] = read_duration(getattr(message, name), option=name, index=index)
    if message.tags:
        options["tags"] = list(message.tags)
    if message.headers:
        options["headers"] = dict(message.headers)
    return options


def write_enqueued(enqueued: Enqueued) -> pb.EnqueueResponse:
    """Return the answer to an enqueue."""
    return pb.EnqueueResponse(
        id=enqueued.id, created=enqueued.created, payload_matches=enqueued.payload_matches
    )


def read_enqueued(response: pb.EnqueueResponse) -> Enqueued:
    """Return what became of an enqueue; it has no App to ask for a result."""
    matches = response.payload_matches if response.HasField("payload_matches") else None
    return Enqueued(response.id, response.created, matches)


_INSTANTS = (
    "run_after",
    "created_at",
    "started_at",
    "finished_at",
    "lease_expires_at",
    "cancel_requested_at",
)


def write_task(task: Task) -> pb.Task:
    """Return *task* as it was read; headers and a policy that nobody can read are left out."""
    message = pb.Task(
        id=task.id,
        queue=task.queue,
        type=task.type,
        payload=task.payload_text,
        state=STATES.write(task.state),
        priority=task.priority,
        attempts=task.attempts,
        max_attempts=task.max_attempts,
        worker=task.worker,
        key=task.key,
        tags=task.tags,
        headers=headers_of(task.headers_text),
        retry=write_stored_policy(task.retry_text),
        result=task.result_text,
        reason=task.reason,
        error=task.error,
        token=task.token,
        history=[_write_attempt(attempt) for attempt in task.history],
    )
    for name in _INSTANTS:
        instant = getattr(task, name)
        if instant is not None:
            getattr(message, name).CopyFrom(write_instant(instant))
    if task.timeout_seconds is not None:
        message.timeout.CopyFrom(write_duration(task.timeout_seconds))
    return message


def read_task(message: pb.Task) -> Task:
    """Return the task. Raises InvalidOption for what this version does not know."""
    instants = {
        name: read_instant(getattr(message, name), option=name)
        for name in _INSTANTS
        if _has(message, name)
    }
    return Task(
        id=message.id,
        queue=message.queue,
        type=message.type,
        payload_text=message.payload,
        state=STATES.read(message.state, option="state"),
        priority=message.priority,
        attempts=message.attempts,
        max_attempts=message.max_attempts,
        token=message.token,
        run_after=instants["run_after"],
        created_at=instants["created_at"],
        started_at=instants.get("started_at"),
        finished_at=instants.get("finished_at"),
        worker=_text(message, "worker"),
        lease_expires_at=instants.get("lease_expires_at"),
        key=_text(message, "key"),
        tags=tuple(message.tags),
        headers_text=headers_text(message.headers),
        retry_text=policy_text(message),
        timeout_seconds=(
            read_duration(message.timeout, option="timeout")
            if message.HasField("timeout")
            else None
        ),
        result_text=_text(message, "result"),
        reason=_text(message, "reason"),
        error=_text(message, "error"),
        cancel_requested_at=instants.get("cancel_requested_at"),
        history=tuple(_read_attempt(attempt) for attempt in message.history),
    )


def _write_attempt(attempt: Attempt) -> pb.Attempt:
    message = pb.Attempt(
        token=attempt.token,
        attempt=attempt.attempt,
        outcome=attempt.outcome,
        worker=attempt.worker,
        ended_at=write_instant(attempt.ended_at),
        error_type=attempt.error_type,
        message=attempt.message,
        traceback=attempt.traceback,
    )
    if attempt.started_at is not None:
        message.started_at.CopyFrom(write_instant(attempt.started_at))
    if attempt.retry_at is not None:
        message.retry_at.CopyFrom(write_instant(attempt.retry_at))
    return message


def _read_attempt(message: pb.Attempt) -> Attempt:
    instants = {
        name: read_instant(getattr(message, name), option=name)
        for name in ("started_at", "ended_at", "retry_at")
        if _has(message, name)
    }
    return Attempt(
        token=message.token,
        attempt=message.attempt,
        outcome=message.outcome,
        worker=_text(message, "worker"),
        started_at=instants.get("started_at"),
        ended_at=instants["ended_at"],
        retry_at=instants.get("retry_at"),
        error_type=_text(message, "error_type"),
        message=_text(message, "message"),
        traceback=_text(message, "traceback"),
    )


def headers_of(text: str | None) -> dict[str, str]:
    """Return the headers that are stored as *text*; none if that cannot be read.

    Only plain SQL can have stored values that are no strings: those go as their JSON.
    """
    if not text:
        return {}
    try:
        stored = decode(text, what="headers")
    except DecodeError:
        return {}
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in stored.items()
    }


def headers_text(headers: Mapping[str, str]) -> str | None:
    """Return headers as they are stored."""
    return json.dumps(dict(headers), ensure_ascii=False) if headers else None


def policy_text(message: Any) -> str | None:
    """Return the policy of a message that may have one (`retry`), as it is stored."""
    return json.dumps(policy_to_store(message.retry)) if message.HasField("retry") else None


def write_page_token(after: int | None) -> str:
    """Return what gets the next page: empty if there is none."""
    return "" if after is None else str(after)


def read_page_token(text: str, *, option: str = "page_token") -> int | None:
    """Return where a page begins; None for the first. Raises InvalidOption for any other text."""
    if not text:
        return None
    if len(text) > 20 or not (text.isascii() and text.isdecimal()):
        raise InvalidOption(option, text, "is no page token: send it as it was given")
    return int(text)


def read_requeued(message: pb.Requeued) -> Requeued:
    """Return what a requeue did to one task."""
    return Requeued(
        message.id,
        REQUEUED.read(message.answer, option="answer"),
        message.key or None,
        message.taken_by or None,
    )
