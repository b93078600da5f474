"""Tasks over HTTP: from a body to the service's call, and from its answer to a body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import UNSET, Raw, UnsetType

from wherry.domain.retry import Additive, Fixed, FullJitter, from_json
from wherry.domain.stored import decode as decode_stored
from wherry.domain.task import Attempt, Enqueued, RequeueAnswer, Task
from wherry.domain.task import Canceled as CancelAnswer
from wherry.domain.task import Purged as PurgeAnswer
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
from wherry.wire.tasks import headers_of, read_page_token, write_page_token

_PAGE_SIZE = 100
_CHANGE_SIZE = 500
# Of payloads and results in one page: a thousand tasks could have two gigabytes of them.
_MOST_CHARACTERS = 16 * 1024 * 1024


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
        "queue": body.queue,
        "key": body.key,
        "priority": body.priority,
        "max_attempts": body.max_attempts,
        "delay": read_seconds(body.delay, option="delay"),
        "run_after": read_instant(body.run_after, option="run_after"),
        "retry": None if body.retry is None else _policy(body.retry),
        "timeout": read_seconds(body.timeout, option="timeout"),
        "ttl": read_seconds(body.ttl, option="ttl"),
        "key_ttl": read_seconds(body.key_ttl, option="key_ttl"),
        "tags": body.tags or None,
        "headers": body.headers or None,
    }
    payload = "" if body.payload is UNSET else text_of(body.payload)
    said = {name: value for name, value in options.items() if value is not None}
    return Asked(body.type, payload, said, body.notify)


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
    task = await call.service.get_task(call.caller, id=_path_id(call))
    return Reply(bodies.GetTaskResponse(task=_task(task, history=True)))


async def find_task(call: Call, query: bodies.TaskKey) -> Reply:
    """Read a task by its queue and key."""
    task = await call.service.get_task(call.caller, queue=query.queue, key=query.key)
    return Reply(bodies.GetTaskResponse(task=_task(task, history=True)))


def _path_id(call: Call) -> int:
    return read_id(call.id or "")


def _task(task: Task, *, history: bool = False) -> bodies.Task:
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


async def list_tasks(call: Call, query: bodies.ListTasksQuery) -> Reply:
    """List one page of tasks."""
    page = await call.service.list_tasks(
        call.caller,
        state=query.state or None,
        queue=query.queue,
        type=query.type,
        tag=query.tag,
        error=query.error,
        older_than=read_seconds(query.older_than, option="older_than"),
        limit=_PAGE_SIZE if query.page_size is None else query.page_size,
        after=read_page_token(query.page_token or ""),
        limit_bytes=_MOST_CHARACTERS,
    )
    shown = _fitting(page.tasks)
    # What did not fit begins the next page.
    after = page.after if len(shown) == len(page.tasks) else shown[-1].id
    tasks = [_task(task) for task in shown]
    return Reply(bodies.ListTasksResponse(tasks=tasks, next_page_token=_next(after)))


def _fitting(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return as many tasks, from the first, as one page may hold: one at least."""
    characters = 0
    for n, task in enumerate(tasks):
        characters += len(task.payload_text) + len(task.result_text or "")
        if characters > _MOST_CHARACTERS and n:
            return tasks[:n]
    return tasks


def _next(after: int | None) -> str | UnsetType:
    return UNSET if after is None else write_page_token(after)


async def cancel_task(call: Call, body: bodies.CancelTaskRequest) -> Reply:
    """Cancel one task."""
    answer = await call.service.cancel_task(
        call.caller, id=_path_id(call), reason=body.reason or None
    )
    return Reply(bodies.CancelTaskResponse(answer=answer))


async def requeue_task(call: Call, body: bodies.RequeueTaskRequest) -> Reply:
    """Put one finished task back."""
    requeued = await call.service.requeue_task(
        call.caller,
        id=_path_id(call),
        without_key=body.without_key,
        reason=body.reason or None,
    )
    return Reply(bodies.RequeueTaskResponse(answer=requeued.answer))


async def cancel_tasks(call: Call, body: bodies.CancelTasksRequest) -> Reply:
    """Cancel tasks that are named or match."""
    changed = await call.service.cancel_tasks(
        call.caller,
        **_selected(body.selection),
        dry_run=body.dry_run,
        reason=body.reason or None,
    )
    tasks = [
        bodies.Canceled(id=str(change.id), answer=CancelAnswer(change.answer))
        for change in changed.answers
    ]
    answer = bodies.CancelTasksResponse(
        matched=changed.matched, tasks=tasks, next_page_token=_next(changed.after)
    )
    return Reply(answer)


async def requeue_tasks(call: Call, body: bodies.RequeueTasksRequest) -> Reply:
    """Put back finished tasks that are named or match."""
    changed = await call.service.requeue_tasks(
        call.caller,
        **_selected(body.selection),
        dry_run=body.dry_run,
        reason=body.reason or None,
        without_key=body.without_key,
    )
    tasks = [
        bodies.Requeued(
            id=str(change.id),
            answer=RequeueAnswer(change.answer),
            key=given(change.key),
            taken_by=given(None if change.taken_by is None else str(change.taken_by)),
        )
        for change in changed.answers
    ]
    answer = bodies.RequeueTasksResponse(
        matched=changed.matched, tasks=tasks, next_page_token=_next(changed.after)
    )
    return Reply(answer)


async def purge_tasks(call: Call, body: bodies.PurgeTasksRequest) -> Reply:
    """Delete finished tasks that are named or match."""
    changed = await call.service.purge_tasks(
        call.caller,
        **_selected(body.selection),
        dry_run=body.dry_run,
        reason=body.reason or None,
    )
    tasks = [
        bodies.Purged(id=str(change.id), answer=PurgeAnswer(change.answer))
        for change in changed.answers
    ]
    answer = bodies.PurgeTasksResponse(
        matched=changed.matched, tasks=tasks, next_page_token=_next(changed.after)
    )
    return Reply(answer)


def _selected(selection: bodies.Selection) -> dict[str, Any]:
    if (selection.ids is None) == (selection.filter is None):
        raise InvalidOption("selection", None, "give either ids or a filter")
    ids = None if selection.ids is None else [read_id(id) for id in selection.ids]
    return {
        "ids": ids,
        "filter": None if selection.filter is None else _filter(selection.filter),
        "limit": _CHANGE_SIZE if selection.page_size is None else selection.page_size,
        "after": read_page_token(selection.page_token or "", option="selection.page_token"),
    }


def _filter(wanted: bodies.TaskFilter) -> Mapping[str, Any]:
    return {
        "state": wanted.states or None,
        "queue": wanted.queue,
        "type": wanted.type,
        "tag": wanted.tag,
        "error": wanted.error,
        "older_than": read_seconds(wanted.older_than, option="selection.filter.older_than"),
    }
