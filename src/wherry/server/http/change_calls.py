"""Tasks are changed over HTTP, one by one or a page at a time."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from wherry.domain.task import Canceled as CancelAnswer
from wherry.domain.task import Purged as PurgeAnswer
from wherry.domain.task import Replanned as ReplanAnswer
from wherry.domain.task import RequeueAnswer
from wherry.errors import InvalidOption
from wherry.server.http import change_bodies as bodies
from wherry.server.http.call import Call, Reply
from wherry.server.http.fields import given, read_id, read_instant, read_seconds
from wherry.server.http.filter_bodies import Selection
from wherry.server.http.finding_calls import filter_of, next_page
from wherry.server.http.task_calls import path_id, text_of
from wherry.server.service import Changed
from wherry.wire.tasks import read_page_token


async def cancel_task(call: Call, body: bodies.CancelTaskRequest) -> Reply:
    """Cancel one task."""
    answer = await call.service.cancel_task(
        call.caller, id=path_id(call), reason=body.reason or None
    )
    return Reply(bodies.CancelTaskResponse(answer=answer))


async def requeue_task(call: Call, body: bodies.RequeueTaskRequest) -> Reply:
    """Put one finished task back."""
    requeued = await call.service.requeue_task(
        call.caller,
        id=path_id(call),
        without_key=body.without_key,
        reason=body.reason or None,
    )
    return Reply(bodies.RequeueTaskResponse(answer=requeued.answer))


async def copy_task(call: Call, body: bodies.CopyTaskRequest) -> Reply:
    """Store a new task after another one."""
    stored = await call.service.copy_task(
        call.caller,
        id=path_id(call),
        queue=body.queue,
        payload_text=None if body.payload is UNSET else text_of(body.payload),
        delay=read_seconds(body.delay, option="delay"),
        purge=body.purge,
        reason=body.reason or None,
    )
    # Relative to the request's own address, so that it holds behind a proxy's prefix too.
    return Reply(bodies.CopyTaskResponse(id=str(stored.id)), 201, {"location": f"{stored.id}"})


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
        matched=changed.matched, tasks=tasks, next_page_token=next_page(changed.after)
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
        delay=read_seconds(body.delay, option="delay") or 0.0,
        per_second=body.per_second,
        to_queue=body.to_queue,
        merge_payload_text=None if body.merge_payload is UNSET else text_of(body.merge_payload),
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
        matched=changed.matched, tasks=tasks, next_page_token=next_page(changed.after)
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
        matched=changed.matched, tasks=tasks, next_page_token=next_page(changed.after)
    )
    return Reply(answer)


async def reprioritize_tasks(call: Call, body: bodies.ReprioritizeTasksRequest) -> Reply:
    """Give queued tasks that are named or match another priority."""
    changed = await call.service.reprioritize_tasks(
        call.caller,
        **_selected(body.selection),
        priority=body.priority,
        dry_run=body.dry_run,
        reason=body.reason or None,
    )
    answer = bodies.ReprioritizeTasksResponse(
        matched=changed.matched,
        tasks=_replanned(changed),
        next_page_token=next_page(changed.after),
    )
    return Reply(answer)


async def reschedule_tasks(call: Call, body: bodies.RescheduleTasksRequest) -> Reply:
    """Let queued tasks that are named or match run at another time."""
    changed = await call.service.reschedule_tasks(
        call.caller,
        **_selected(body.selection),
        delay=read_seconds(body.delay, option="delay"),
        run_after=read_instant(body.run_after, option="run_after"),
        dry_run=body.dry_run,
        reason=body.reason or None,
    )
    answer = bodies.RescheduleTasksResponse(
        matched=changed.matched,
        tasks=_replanned(changed),
        next_page_token=next_page(changed.after),
    )
    return Reply(answer)


def _replanned(changed: Changed) -> list[bodies.Replanned]:
    return [
        bodies.Replanned(id=str(change.id), answer=ReplanAnswer(change.answer))
        for change in changed.answers
    ]


def _selected(selection: Selection) -> dict[str, Any]:
    if (selection.ids is None) == (selection.filter is None):
        raise InvalidOption("selection", None, "give either ids or a filter")
    ids = None if selection.ids is None else [read_id(id) for id in selection.ids]
    return {
        "ids": ids,
        "filter": None if selection.filter is None else filter_of(selection.filter),
        "after": read_page_token(selection.page_token or "", option="selection.page_token"),
        **({} if selection.page_size is None else {"limit": selection.page_size}),
    }
