"""The rpcs about tasks: decode, call the service, encode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message

from wherry.errors import InvalidOption, WherryError
from wherry.server.caller import Caller
from wherry.server.grpc.base import Verbs
from wherry.server.grpc.refusals import problem_message
from wherry.server.service import Asked, Change, Changed
from wherry.wire.filter import read_filter, read_place, write_place
from wherry.wire.tasks import (
    read_enqueue,
    read_page_token,
    write_enqueued,
    write_page_token,
    write_task,
)
from wherry.wire.v1 import tasks_pb2 as pb
from wherry.wire.values import CANCELED, PURGED, REPLANNED, REQUEUED, read_duration, read_instant

# What every gRPC client takes by default is 4 MiB; some room is left for what is around it.
ANSWER_LIMIT_BYTES: Final = 4 * 1024 * 1024 - 64 * 1024


_Change = (
    pb.CancelTasksRequest
    | pb.RequeueTasksRequest
    | pb.PurgeTasksRequest
    | pb.ReprioritizeTasksRequest
    | pb.RescheduleTasksRequest
)


class TaskVerbs(Verbs):
    """The rpcs that store, read and change tasks."""

    async def enqueue(self, caller: Caller, request: pb.EnqueueRequest) -> pb.EnqueueResponse:
        """Store one task."""
        enqueued = await self.service.enqueue(caller, task=_asked(request))
        return write_enqueued(enqueued)

    async def enqueue_batch(
        self, caller: Caller, request: pb.EnqueueBatchRequest
    ) -> pb.EnqueueBatchResponse:
        """Store many tasks."""
        self.service.refuse_too_many(request.tasks, of="tasks")
        found = await self.service.enqueue_batch(
            caller,
            tasks=[_asked_or_error(task) for task in request.tasks],
            all_or_nothing=request.all_or_nothing,
            notify=request.notify if request.HasField("notify") else True,
        )
        results = [
            pb.EnqueueResult(problem=problem_message(answer, doing="EnqueueBatch"))
            if isinstance(answer, WherryError)
            else pb.EnqueueResult(task=write_enqueued(answer))
            for answer in found
        ]
        return pb.EnqueueBatchResponse(results=results)

    async def get_task(self, caller: Caller, request: pb.GetTaskRequest) -> pb.GetTaskResponse:
        """Read one task with as much of its history as an answer may hold: the newest of it."""
        match request.WhichOneof("name"):
            case "id":
                task = await self.service.get_task(caller, id=request.id)
            case "key":
                task = await self.service.get_task(
                    caller, queue=request.key.queue, key=request.key.key
                )
            case _:
                raise InvalidOption("id", None, "name the task: its id, or its queue and key")
        message = write_task(task)
        size_bytes = message.ByteSize()
        while size_bytes > ANSWER_LIMIT_BYTES and message.history:
            size_bytes -= message.history[0].ByteSize()
            del message.history[0]
        return pb.GetTaskResponse(task=message)

    async def list_tasks(
        self, caller: Caller, request: pb.ListTasksRequest
    ) -> pb.ListTasksResponse:
        """List a page of tasks: fewer than asked for where more would be too large an answer."""
        page = await self.service.list_tasks(
            caller,
            **read_filter(request.filter),
            **_size(request.page_size),
            **read_place(request.page_token),
            timeout=read_timeout(request),
            limit_bytes=ANSWER_LIMIT_BYTES,
        )
        messages = fitting([write_task(task) for task in page.tasks])
        whole = len(messages) == len(page.tasks)
        after = page.after if whole else messages[-1].id
        return pb.ListTasksResponse(
            tasks=messages,
            next_page_token=write_page_token(after),
            previous_page_token="" if page.before is None else write_place(None, page.before),
        )

    async def cancel_task(
        self, caller: Caller, request: pb.CancelTaskRequest
    ) -> pb.CancelTaskResponse:
        """Cancel one task."""
        answer = await self.service.cancel_task(
            caller, id=request.id, reason=request.reason or None
        )
        return pb.CancelTaskResponse(answer=CANCELED.write(answer))

    async def requeue_task(
        self, caller: Caller, request: pb.RequeueTaskRequest
    ) -> pb.RequeueTaskResponse:
        """Put one finished task back."""
        requeued = await self.service.requeue_task(
            caller,
            id=request.id,
            without_key=request.without_key,
            reason=request.reason or None,
        )
        return pb.RequeueTaskResponse(answer=REQUEUED.write(requeued.answer))

    async def cancel_tasks(
        self, caller: Caller, request: pb.CancelTasksRequest
    ) -> pb.CancelTasksResponse:
        """Cancel a page of tasks."""
        changed = await self.service.cancel_tasks(caller, **self._selected(request))
        tasks = [pb.Canceled(id=c.id, answer=CANCELED.write(_of(c))) for c in changed.answers]
        return pb.CancelTasksResponse(**_changed(changed), tasks=tasks)

    async def copy_task(self, caller: Caller, request: pb.CopyTaskRequest) -> pb.CopyTaskResponse:
        """Store a new task after another one."""
        has = request.HasField
        stored = await self.service.copy_task(
            caller,
            id=request.id,
            queue=request.queue if has("queue") else None,
            payload_text=request.payload if has("payload") else None,
            delay=read_duration(request.delay, option="delay") if has("delay") else None,
            purge=request.purge,
            reason=request.reason or None,
        )
        return pb.CopyTaskResponse(id=stored.id)

    async def requeue_tasks(
        self, caller: Caller, request: pb.RequeueTasksRequest
    ) -> pb.RequeueTasksResponse:
        """Put back a page of finished tasks."""
        changed = await self.service.requeue_tasks(
            caller,
            **self._selected(request),
            without_key=request.without_key,
            delay=read_duration(request.delay, option="delay"),
            per_second=request.per_second if request.HasField("per_second") else None,
            to_queue=request.to_queue if request.HasField("to_queue") else None,
            merge_payload_text=(
                request.merge_payload if request.HasField("merge_payload") else None
            ),
        )
        tasks = [
            pb.Requeued(
                id=c.id,
                answer=REQUEUED.write(_of(c)),
                key=c.key or "",
                taken_by=c.taken_by or 0,
            )
            for c in changed.answers
        ]
        return pb.RequeueTasksResponse(**_changed(changed), tasks=tasks)

    async def purge_tasks(
        self, caller: Caller, request: pb.PurgeTasksRequest
    ) -> pb.PurgeTasksResponse:
        """Delete a page of finished tasks."""
        changed = await self.service.purge_tasks(caller, **self._selected(request))
        tasks = [pb.Purged(id=c.id, answer=PURGED.write(_of(c))) for c in changed.answers]
        return pb.PurgeTasksResponse(**_changed(changed), tasks=tasks)

    async def reprioritize_tasks(
        self, caller: Caller, request: pb.ReprioritizeTasksRequest
    ) -> pb.ReprioritizeTasksResponse:
        """Give a page of queued tasks another priority."""
        changed = await self.service.reprioritize_tasks(
            caller, **self._selected(request), priority=request.priority
        )
        return pb.ReprioritizeTasksResponse(**_changed(changed), tasks=_replanned(changed))

    async def reschedule_tasks(
        self, caller: Caller, request: pb.RescheduleTasksRequest
    ) -> pb.RescheduleTasksResponse:
        """Let a page of queued tasks run at another time."""
        due: dict[str, Any] = {}
        match request.WhichOneof("due"):
            case "delay":
                due["delay"] = read_duration(request.delay, option="delay")
            case "run_after":
                due["run_after"] = read_instant(request.run_after, option="run_after")
            case _:
                pass
        changed = await self.service.reschedule_tasks(caller, **self._selected(request), **due)
        return pb.RescheduleTasksResponse(**_changed(changed), tasks=_replanned(changed))

    def _selected(self, request: _Change) -> dict[str, Any]:
        selection = request.selection
        self.service.refuse_too_many(selection.ids, of="ids")
        return {
            "ids": list(selection.ids) or None,
            "filter": read_filter(selection.filter) if selection.HasField("filter") else None,
            "dry_run": request.dry_run,
            "reason": request.reason or None,
            **_paging(selection.page_size, selection.page_token),
        }


def fitting(messages: list[Any]) -> list[Any]:
    """Return as many of *messages*, from the first, as one answer may hold: one at least."""
    size_bytes = 0
    for n, message in enumerate(messages):
        size_bytes += _with_frame(message)
        if size_bytes > ANSWER_LIMIT_BYTES and n:
            return messages[:n]
    return messages


def _with_frame(message: Message) -> int:
    return message.ByteSize() + 6


def _asked(request: pb.EnqueueRequest) -> Asked:
    notify = request.notify if request.HasField("notify") else None
    return Asked(*read_enqueue(request), notify)


def _asked_or_error(request: pb.EnqueueRequest) -> Asked | WherryError:
    try:
        return _asked(request)
    except WherryError as error:
        return error


def _paging(page_size: int, page_token: str) -> dict[str, Any]:
    return {"after": read_page_token(page_token), **_size(page_size)}


def _size(page_size: int) -> dict[str, Any]:
    return {"limit": page_size} if page_size else {}


def read_timeout(
    request: pb.ListTasksRequest | pb.CountTasksRequest | pb.GroupDeadTasksRequest,
) -> float | None:
    """Return how long a search may take, in seconds; None if that was not said."""
    if not request.HasField("timeout"):
        return None
    return read_duration(request.timeout, option="timeout")


# Any: the service has one kind of change for all verbs, the wire an enum for each.
def _of(change: Change) -> Any:
    return change.answer


def _replanned(changed: Changed) -> list[pb.Replanned]:
    return [pb.Replanned(id=c.id, answer=REPLANNED.write(_of(c))) for c in changed.answers]


def _changed(changed: Changed) -> Mapping[str, Any]:
    return {"matched": changed.matched, "next_page_token": write_page_token(changed.after)}
