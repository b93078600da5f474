"""Changes of tasks as JSON: the bodies of operators, field by field as in the contract."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from wherry.app.asked import LEAST_PER_SECOND, MOST_PER_SECOND
from wherry.domain.task import Canceled as CancelAnswer
from wherry.domain.task import Purged as PurgeAnswer
from wherry.domain.task import Replanned as ReplanAnswer
from wherry.domain.task import RequeueAnswer
from wherry.server.http.bodies import Answer, Request
from wherry.server.http.fields import Id, Instant, JsonObject, Length, Priority, Queue, Reason
from wherry.server.http.filter_bodies import Selection


class CancelTaskRequest(Request):
    """Why it is canceled."""

    reason: Reason | None = None


class CancelTaskResponse(Answer):
    """What a cancel did."""

    answer: CancelAnswer


class RequeueTaskRequest(Request):
    """How it is put back."""

    without_key: Annotated[bool, Meta(description="Leave its key to the task that has it now.")] = (
        False
    )
    reason: Reason | None = None


class RequeueTaskResponse(Answer):
    """What a requeue did."""

    answer: RequeueAnswer


class CopyTaskRequest(Request):
    """What is other than in the task of the path, which stays what it is."""

    queue: Annotated[Queue | None, Meta(description="The task's own if not given.")] = None
    payload: (
        Annotated[JsonObject, Meta(description="The task's own, digit by digit, if not given.")]
        | UnsetType
    ) = UNSET
    delay: Annotated[
        Length | None, Meta(description="When it may run: so long from now; at once if not given.")
    ] = None
    purge: Annotated[
        bool,
        Meta(description="Delete the old task in the same transaction; it must have ended."),
    ] = False
    reason: Reason | None = None


class CopyTaskResponse(Answer):
    """Which task there is now."""

    id: Annotated[Id, Meta(description="The new task's id.")]


class CancelTasksRequest(Request):
    """Tasks to cancel."""

    selection: Selection
    dry_run: Annotated[bool, Meta(description="Only count what would be done.")] = False
    reason: Reason | None = None


class Canceled(Answer):
    """What became of one task."""

    id: Id
    answer: CancelAnswer


class CancelTasksResponse(Answer):
    """What became of them, newest first, or in the order of the ids; empty in a dry run."""

    matched: Annotated[int, Meta(description="How many tasks this call was about.")]
    tasks: list[Canceled]
    next_page_token: str | UnsetType = UNSET


class RequeueTasksRequest(Request):
    """Finished tasks to put back."""

    selection: Selection
    dry_run: Annotated[bool, Meta(description="Only count what would be done.")] = False
    reason: Reason | None = None
    without_key: Annotated[
        bool, Meta(description="Leave their keys to the tasks that have them now.")
    ] = False
    delay: Annotated[Length | None, Meta(description="How long the first of them waits.")] = None
    per_second: Annotated[
        Annotated[float, Meta(ge=LEAST_PER_SECOND, le=MOST_PER_SECOND)] | None,
        Meta(description="So many become ready in a second; all at once if not given."),
    ] = None
    to_queue: Annotated[
        Queue | None,
        Meta(description="Into this queue, with their history and without their keys."),
    ] = None
    merge_payload: (
        Annotated[
            JsonObject,
            Meta(
                description="Merged into each payload as RFC 7396 has it: its members are set, one"
                " that is null is removed, and all others stay what they are, digit by digit. A"
                " call that has one changes 50 tasks at most, by ids as well."
            ),
        ]
        | UnsetType
    ) = UNSET


class Requeued(Answer):
    """What became of one task."""

    id: Id
    answer: RequeueAnswer
    key: Annotated[str, Meta(description="With `key_taken`: the key.")] | UnsetType = UNSET
    taken_by: (
        Annotated[Id, Meta(description="With `key_taken`: the task it names.")] | UnsetType
    ) = UNSET


class RequeueTasksResponse(Answer):
    """What became of them, newest first, or in the order of the ids; empty in a dry run."""

    matched: Annotated[int, Meta(description="How many tasks this call was about.")]
    tasks: list[Requeued]
    next_page_token: str | UnsetType = UNSET


class PurgeTasksRequest(Request):
    """Finished tasks to delete, with their histories and keys."""

    selection: Selection
    dry_run: Annotated[bool, Meta(description="Only count what would be done.")] = False
    reason: Reason | None = None


class Purged(Answer):
    """What became of one task."""

    id: Id
    answer: PurgeAnswer


class PurgeTasksResponse(Answer):
    """What became of them, newest first, or in the order of the ids; empty in a dry run."""

    matched: Annotated[int, Meta(description="How many tasks this call was about.")]
    tasks: list[Purged]
    next_page_token: str | UnsetType = UNSET


class Replanned(Answer):
    """What became of one task."""

    id: Id
    answer: ReplanAnswer


class ReprioritizeTasksRequest(Request):
    """Queued tasks to give another priority; they stand behind those that have it already."""

    selection: Selection
    priority: Priority
    dry_run: Annotated[bool, Meta(description="Only count what would be done.")] = False
    reason: Reason | None = None


class ReprioritizeTasksResponse(Answer):
    """What became of them, newest first, or in the order of the ids; empty in a dry run."""

    matched: Annotated[int, Meta(description="How many tasks this call was about.")]
    tasks: list[Replanned]
    next_page_token: str | UnsetType = UNSET


class RescheduleTasksRequest(Request):
    """Queued tasks to run at another time; of `delay` and `run_after` exactly one."""

    selection: Selection
    delay: Annotated[Length | None, Meta(description="So long from now; `0s` is at once.")] = None
    run_after: Annotated[Instant | None, Meta(description="At this time.")] = None
    dry_run: Annotated[bool, Meta(description="Only count what would be done.")] = False
    reason: Reason | None = None


class RescheduleTasksResponse(Answer):
    """What became of them, newest first, or in the order of the ids; empty in a dry run."""

    matched: Annotated[int, Meta(description="How many tasks this call was about.")]
    tasks: list[Replanned]
    next_page_token: str | UnsetType = UNSET
