"""Tasks as JSON: the bodies of `proto/wherry/v1/tasks.proto`, field by field under the same names.

Requests take null for "not given" and refuse fields that are not known; answers leave out what is
not there. A payload is JSON inside of JSON, word for word as it was stored.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, UnsetType

from wherry.domain.state import State
from wherry.server.http.bodies import Answer, Request
from wherry.server.http.fields import (
    BATCH_LIMIT,
    Headers,
    Id,
    Instant,
    JsonObject,
    JsonValue,
    Key,
    Length,
    MaxAttempts,
    PositiveLength,
    Priority,
    Queue,
    Seconds,
    Tags,
    Type,
)


class Problem(Answer):
    """What went wrong with one item of a batch."""

    reason: Annotated[str, Meta(description="Stable, for programs, such as `INVALID_OPTION`.")]
    message: Annotated[str, Meta(description="For people: what, where, and what to do.")]
    field: Annotated[str, Meta(description="The field to blame.")] | UnsetType = UNSET


class FullJitter(Request):
    """Wait a random part of `base * 2**attempts`, which never is more than `cap`."""

    base: Annotated[Length | None, Meta(description="`1s` if not given.")] = None
    cap: Annotated[Length | None, Meta(description="`3600s` if not given.")] = None


class Additive(Request):
    """Wait `base * 2**attempts` and a random part of `jitter`, together at most `cap`."""

    base: Annotated[Length | None, Meta(description="`1s` if not given.")] = None
    jitter: Annotated[Length | None, Meta(description="`1s` if not given.")] = None
    cap: Annotated[Length | None, Meta(description="`3600s` if not given.")] = None


class Fixed(Request):
    """Wait `delay`, always."""

    delay: Length


class RetryPolicy(Request, omit_defaults=True):
    """How long a failed attempt waits for the next: exactly one of these."""

    full_jitter: FullJitter | None = None
    additive: Additive | None = None
    fixed: Fixed | None = None


class DeclaredTask(Request):
    """What of a task can be said long before it is stored."""

    type: Type
    queue: Annotated[Queue | None, Meta(description="`default` if not given.")] = None
    payload: JsonObject | UnsetType = UNSET
    priority: Annotated[Priority | None, Meta(description="0 if not given.")] = None
    max_attempts: Annotated[MaxAttempts | None, Meta(description="20 if not given.")] = None
    retry: RetryPolicy | None = None
    timeout: Annotated[
        PositiveLength | None, Meta(description="How long one attempt may take.")
    ] = None
    ttl: Annotated[
        PositiveLength | None, Meta(description="Not started for so long it is canceled.")
    ] = None
    tags: Tags | None = None
    headers: Headers | None = None


class BatchTask(DeclaredTask):
    """A task to store, among others; of `delay` and `run_after` only one."""

    key: Key | None = None
    delay: Annotated[Length | None, Meta(description="When it may run: so long from now.")] = None
    run_after: Annotated[Instant | None, Meta(description="When it may run: at this time.")] = None
    key_ttl: Annotated[
        Length | None,
        Meta(description="How long its key lives on after its end; as the task if not given."),
    ] = None


class EnqueueRequest(BatchTask):
    """A task to store; of `delay` and `run_after` only one."""

    notify: Annotated[
        bool | None, Meta(description="Whether an idle worker is woken; `true` if not given.")
    ] = None


class EnqueueResponse(Answer):
    """Which task there is now."""

    id: Annotated[Id, Meta(description="The task's id: the first one's, if its key was known.")]
    created: Annotated[bool, Meta(description="False if the key already named a task.")]
    payload_matches: (
        Annotated[bool, Meta(description="Whether that task has the same type and payload.")]
        | UnsetType
    ) = UNSET


class EnqueueBatchRequest(Request):
    """Tasks to store."""

    tasks: Annotated[
        list[Annotated[Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/BatchTask"})]],
        Meta(max_length=BATCH_LIMIT, description="Each is read by itself: a bad one spoils none."),
    ]
    all_or_nothing: Annotated[
        bool, Meta(description="Refuse the whole call if one is bad, instead of that one.")
    ] = False
    notify: Annotated[bool, Meta(description="Whether idle workers are woken.")] = True


class EnqueueResult(Answer):
    """What became of one task of a batch: either of these."""

    task: Annotated[EnqueueResponse, Meta(description="It is stored.")] | UnsetType = UNSET
    problem: Annotated[Problem, Meta(description="It was refused.")] | UnsetType = UNSET


class EnqueueBatchResponse(Answer):
    """One result for each task."""

    results: Annotated[list[EnqueueResult], Meta(description="In the order of the request.")]


class Attempt(Answer):
    """An attempt that did not succeed."""

    token: Annotated[str, Meta(description="The number of its lease.")]
    attempt: Annotated[int, Meta(description="Which attempt it was, from 1.")]
    outcome: Annotated[str, Meta(description="`failed`, `lost` or `canceled`.")]
    ended_at: Instant
    worker: Annotated[str, Meta(description="Who had it.")] | UnsetType = UNSET
    started_at: Instant | UnsetType = UNSET
    retry_at: Annotated[Instant, Meta(description="When the next was due.")] | UnsetType = UNSET
    error_type: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    traceback: str | UnsetType = UNSET


class Task(Answer):
    """A task as it stood when it was read."""

    id: Id
    queue: str
    type: str
    payload: JsonObject
    state: State
    priority: int
    attempts: Annotated[int, Meta(description="How many attempts count.")]
    max_attempts: int
    run_after: Annotated[Instant, Meta(description="When it may run.")]
    created_at: Instant
    tags: list[str]
    headers: dict[str, str]
    token: Annotated[str, Meta(description="The number of its latest lease; it only grows.")]
    started_at: Annotated[Instant, Meta(description="When its last attempt began.")] | UnsetType = (
        UNSET
    )
    finished_at: Instant | UnsetType = UNSET
    worker: Annotated[str, Meta(description="Who has it, or had it last.")] | UnsetType = UNSET
    lease_expires_at: Instant | UnsetType = UNSET
    key: str | UnsetType = UNSET
    retry: RetryPolicy | UnsetType = UNSET
    timeout: Seconds | UnsetType = UNSET
    result: Annotated[JsonValue, Meta(description="What it returned.")] | UnsetType = UNSET
    reason: Annotated[str, Meta(description="Why it ended as it did.")] | UnsetType = UNSET
    error: Annotated[str, Meta(description="The last error.")] | UnsetType = UNSET
    cancel_requested_at: Instant | UnsetType = UNSET
    history: (
        Annotated[
            list[Attempt], Meta(description="What did not succeed; only where one task is read.")
        ]
        | UnsetType
    ) = UNSET


class TaskKey(Request):
    """The task of an idempotency key."""

    queue: Queue
    key: Key


class GetTaskResponse(Answer):
    """The task, with its history."""

    task: Task
