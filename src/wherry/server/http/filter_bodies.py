"""Which tasks somebody looks for, as JSON and as a query, field by field as in the contract."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from wherry.app.asked_filter import MOST_COUNTED
from wherry.domain.state import State
from wherry.server.http.bodies import Answer, Request
from wherry.server.http.fields import (
    BATCH_LIMIT,
    Fingerprint,
    Held,
    Id,
    Instant,
    JsonObject,
    Key,
    Length,
    ListPageToken,
    PageSize,
    PageToken,
    Queue,
    SearchLength,
    Tag,
    Text,
    Type,
    Worker,
)
from wherry.server.http.task_bodies import Task


class Narrowing(Request):
    """What narrows in a body and in a query alike."""

    id: Id | None = None
    queue: Queue | None = None
    type: Type | None = None
    tag: Tag | None = None
    key: Key | None = None
    worker: Annotated[
        Worker | None, Meta(description="Whose lease this worker has, or which it ended.")
    ] = None
    error: Annotated[Text | None, Meta(description="Whose last error holds this, in any case.")] = (
        None
    )
    older_than: Annotated[
        Length | None,
        Meta(description="Whose end (or enqueue, of a live one) is longer ago."),
    ] = None
    created_after: Annotated[Instant | None, Meta(description="Stored then or later.")] = None
    created_before: Annotated[Instant | None, Meta(description="Stored before.")] = None
    finished_after: Annotated[Instant | None, Meta(description="Ended then or later.")] = None
    finished_before: Annotated[Instant | None, Meta(description="Ended before.")] = None
    fingerprint: Fingerprint | None = None


class TaskFilter(Narrowing):
    """Which tasks: every field that is given narrows."""

    states: Annotated[list[State] | None, Meta(description="Any of these.")] = None
    payload: (
        Annotated[JsonObject, Meta(description="What it holds, at the same depth.")] | UnsetType
    ) = UNSET


class TaskQuery(Narrowing):
    """Which tasks, in a query."""

    state: Annotated[list[State] | None, Meta(description="Any of these; may be repeated.")] = None
    payload: Annotated[
        list[Held] | None,
        Meta(description="What the payload holds, such as `customer.id=42`; may be repeated."),
    ] = None
    timeout: SearchLength | None = None


class ListTasksQuery(TaskQuery):
    """Which page of which tasks."""

    page_size: Annotated[PageSize | None, Meta(description="100 if not given.")] = None
    page_token: ListPageToken | None = None


class ListTasksResponse(Answer):
    """A page, newest first."""

    tasks: Annotated[list[Task], Meta(description="Without their histories.")]
    next_page_token: (
        Annotated[str, Meta(description="Left out if there are no more.")] | UnsetType
    ) = UNSET
    previous_page_token: (
        Annotated[str, Meta(description="Left out if these are the newest.")] | UnsetType
    ) = UNSET


class CountTasksQuery(TaskQuery):
    """Which tasks to count, and where to stop."""

    most: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_COUNTED)] | None,
        Meta(description="Where to stop; 10000 if not given."),
    ] = None


class CountTasksResponse(Answer):
    """How many there are."""

    tasks: Annotated[int, Meta(description="So many; with `capped` at least so many.")]
    capped: Annotated[bool, Meta(description="Whether there are more.")]


class Selection(Request):
    """The tasks that a call is about: ids, or what matches a filter."""

    ids: Annotated[list[Id], Meta(max_length=BATCH_LIMIT)] | None = None
    filter: Annotated[TaskFilter | None, Meta(description="Has to narrow by more than states.")] = (
        None
    )
    page_size: Annotated[
        PageSize | None,
        Meta(
            description="How many at most in this call; 500 if not given. With merge_payload 50 at"
            " most, and 50 if not given."
        ),
    ] = None
    page_token: PageToken | None = None
