"""Tasks over HTTP: from a body to the service's call, and from its answer to a body."""

from __future__ import annotations

from typing import Any, cast

from msgspec import UNSET, Raw, UnsetType

from wherry.domain.retry import Additive, Fixed, FullJitter, from_json
from wherry.domain.stored import decode as decode_stored
from wherry.domain.task import Attempt, Enqueued, Task
from wherry.errors import DecodeError, InvalidOption, InvalidTask, WherryError
from wherry.server.http import task_bodies as bodies
from wherry.server.http.call import Call, Reply
from wherry.server.http.fields import (
    given,
    read_id,
    read_instant,
    read_seconds,
    write_instant,
    write_instant_if,
    write_seconds,
)
from wherry.server.http.reading import decode
from wherry.server.http.refusals import Refused
from wherry.server.problems import problem_of
from wherry.server.service import Asked
from wherry.wire.tasks import headers_of


def text_of(raw: Raw) -> str:
    """Return the JSON text that stood in a body; the body is known to be UTF-8."""
    return bytes(cast("Any", raw)).decode()


def raw_or(text: str | None, default: str) -> Raw:
    """Return stored JSON text as a part of an answer, as it is."""
    return Raw((text or default).encode())


async def enqueue(call: Call, body: bodies.EnqueueRequest) -> Reply:
    """Store one task: 201 for a new one, 200 for the one that its key names."""
    enqueued = await call.service.enqueue(call.caller, task=_asked(body))
    answer = _enqueued(enqueued)
    if not enqueued.created:
        return Reply(answer)
    # Relative to the request's own address, so that it holds behind a proxy's prefix too.
    return Reply(answer, 201, {"location": f"tasks/{enqueued.id}"})


async def enqueue_batch(call: Call, body: bodies.EnqueueBatchRequest) -> Reply:
    """Store many tasks."""
    tasks = [_asked_or_error(raw) for raw in body.tasks]
    answers = await call.service.enqueue_batch(
        call.caller, tasks=tasks, all_or_nothing=body.all_or_nothing, notify=body.notify
    )
    results = [
        bodies.EnqueueResult(problem=item_problem(answer))
        if isinstance(answer, WherryError)
        else bodies.EnqueueResult(task=_enqueued(answer))
        for answer in answers
    ]
    return Reply(bodies.EnqueueBatchResponse(results=results))


def item_problem(error: WherryError) -> bodies.Problem:
    """Return what is told of a bad item of a batch."""
    problem = problem_of(error, doing="an item of a batch")
    return bodies.Problem(
        reason=problem.reason, message=problem.detail[:1000], field=given(problem.field)
    )


def _asked_or_error(raw: Raw) -> Asked | WherryError:
    try:
        return _asked(decode(raw, bodies.EnqueueRequest))
    except Refused as refused:
        return item_error(refused)
    except WherryError as error:
        return error


class _NotShown:
    """A value of which only its place and its fault are told."""

    def __repr__(self) -> str:
        return "…"


def item_error(refused: Refused, *, at: str = "") -> WherryError:
    """Return why an item that stands at the path *at* is refused."""
    field = (refused.field or "").removeprefix(at).removeprefix(".")
    if not field:
        return InvalidTask(refused.detail)
    return InvalidOption(field, _NotShown(), refused.detail)


def _asked(body: bodies.EnqueueRequest) -> Asked:
    options: dict[str, Any] = {
        "key": body.key,
        "delay": read_seconds(body.delay, option="delay"),
        "run_after": read_instant(body.run_after, option="run_after"),
        "key_ttl": read_seconds(body.key_ttl, option="key_ttl"),
    }
    said = {name: value for name, value in options.items() if value is not None}
    return Asked(body.type, payload_of(body), declared_options(body) | said, body.notify)


def payload_of(body: bodies.DeclaredTask) -> str:
    """Return the text of a payload; the empty one if there is none."""
    return "" if body.payload is UNSET else text_of(body.payload)


def declared_options(body: bodies.DeclaredTask) -> dict[str, Any]:
    """Return those options of a body that a type may declare too, unchecked."""
    options: dict[str, Any] = {
        "queue": body.queue,
        "priority": body.priority,
        "max_attempts": body.max_attempts,
        "retry": None if body.retry is None else _policy(body.retry),
        "timeout": read_seconds(body.timeout, option="timeout"),
        "ttl": read_seconds(body.ttl, option="ttl"),
        "tags": body.tags or None,
        "headers": body.headers or None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _policy(policy: bodies.RetryPolicy) -> FullJitter | Additive | Fixed:
    kinds = [
        kind for kind in (policy.full_jitter, policy.additive, policy.fixed) if kind is not None
    ]
    if len(kinds) != 1:
        reason = "say exactly one of full_jitter, additive and fixed"
        raise InvalidOption("retry", len(kinds), reason)
    match kinds[0]:
        case bodies.FullJitter() as full_jitter:
            return FullJitter(**_lengths(full_jitter, "full_jitter", "base", "cap"))
        case bodies.Additive() as additive:
            return Additive(**_lengths(additive, "additive", "base", "jitter", "cap"))
        case bodies.Fixed() as fixed:
            return Fixed(**_lengths(fixed, "fixed", "delay"))


def _lengths(policy: Any, kind: str, *names: str) -> dict[str, float]:
    found = {
        name: read_seconds(getattr(policy, name), option=f"retry.{kind}.{name}") for name in names
    }
    return {name: seconds for name, seconds in found.items() if seconds is not None}


def stored_policy(text: str | None) -> bodies.RetryPolicy | UnsetType:
    """Return the policy that is stored as *text*; nothing if there is none, or none readable."""
    if not text:
        return UNSET
    notes: list[str] = []
    try:
        policy = from_json(decode_stored(text, what="retry policy"), note=notes.append)
    except DecodeError:
        return UNSET
    if notes:
        return UNSET

    def said(length: Any) -> str:
        return write_seconds(length.total_seconds()) or "0s"

    match policy:
        case FullJitter(base, cap):
            jitter = bodies.FullJitter(base=said(base), cap=said(cap))
            return bodies.RetryPolicy(full_jitter=jitter)
        case Additive(base, spread, cap):
            additive = bodies.Additive(base=said(base), jitter=said(spread), cap=said(cap))
            return bodies.RetryPolicy(additive=additive)
        case Fixed(delay):
            return bodies.RetryPolicy(fixed=bodies.Fixed(delay=said(delay)))


def _enqueued(enqueued: Enqueued) -> bodies.EnqueueResponse:
    matches = enqueued.payload_matches
    return bodies.EnqueueResponse(
        id=str(enqueued.id),
        created=enqueued.created,
        payload_matches=UNSET if matches is None else matches,
    )


async def get_task(call: Call, _query: object) -> Reply:
    """Read a task by its id."""
    task = await call.service.get_task(call.caller, id=path_id(call))
    return Reply(bodies.GetTaskResponse(task=task_body(task, history=True)))


async def find_task(call: Call, query: bodies.TaskKey) -> Reply:
    """Read a task by its queue and key."""
    task = await call.service.get_task(call.caller, queue=query.queue, key=query.key)
    return Reply(bodies.GetTaskResponse(task=task_body(task, history=True)))


def path_id(call: Call) -> int:
    """Return the id that stands in the path. Raises InvalidOption."""
    return read_id(call.id or "")


def task_body(task: Task, *, history: bool = False) -> bodies.Task:
    """Return a task as answers have it, with its history or without."""
    return bodies.Task(
        id=str(task.id),
        queue=task.queue,
        type=task.type,
        payload=raw_or(task.payload_text, "{}"),
        state=task.state,
        priority=task.priority,
        attempts=task.attempts,
        max_attempts=task.max_attempts,
        run_after=write_instant(task.run_after),
        created_at=write_instant(task.created_at),
        tags=list(task.tags),
        headers=headers_of(task.headers_text),
        token=str(task.token),
        started_at=write_instant_if(task.started_at),
        finished_at=write_instant_if(task.finished_at),
        worker=given(task.worker),
        lease_expires_at=write_instant_if(task.lease_expires_at),
        key=given(task.key),
        retry=stored_policy(task.retry_text),
        timeout=write_seconds(task.timeout_seconds),
        result=UNSET if task.result_text is None else raw_or(task.result_text, "null"),
        reason=given(task.reason),
        error=given(task.error),
        cancel_requested_at=write_instant_if(task.cancel_requested_at),
        history=[_attempt(attempt) for attempt in task.history] if history else UNSET,
    )


def _attempt(attempt: Attempt) -> bodies.Attempt:
    return bodies.Attempt(
        token=str(attempt.token),
        attempt=attempt.attempt,
        outcome=attempt.outcome,
        ended_at=write_instant(attempt.ended_at),
        worker=given(attempt.worker),
        started_at=write_instant_if(attempt.started_at),
        retry_at=write_instant_if(attempt.retry_at),
        error_type=given(attempt.error_type),
        message=given(attempt.message),
        traceback=given(attempt.traceback),
    )
