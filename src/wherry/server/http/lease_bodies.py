"""Leases as JSON: the bodies of `proto/wherry/v1/leases.proto`, under the same names."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, Raw, UnsetType

from wherry.domain.worker import Directive
from wherry.server.http.bodies import Answer, Request
from wherry.server.http.fields import (
    BATCH_LIMIT,
    HEARTBEAT_LIMIT,
    ConfirmLength,
    Id,
    Instance,
    Instant,
    JsonObject,
    JsonValue,
    LeasedQueue,
    LeaseLength,
    LeaseToken,
    Length,
    Reason,
    Seconds,
    Type,
    WaitLength,
    Worker,
)
from wherry.server.http.task_bodies import Problem, RetryPolicy


class Reported(StrEnum):
    """What was found of a lease.

    `done`: as reported. `already_done`: settled by this very lease before, so a repeated report is
    harmless. `requeued`: waits for its next attempt. `failed`, `dead`, `canceled`: has ended so.
    `lost`: not yours any more, nothing was changed. `busy`: somebody is settling it in an open
    transaction, ask again. `extended`: goes on. `cancel_requested`: goes on, but let go. `invalid`:
    the report itself was bad, nothing was changed.
    """

    DONE = "done"
    ALREADY_DONE = "already_done"
    REQUEUED = "requeued"
    FAILED = "failed"
    DEAD = "dead"
    CANCELED = "canceled"
    LOST = "lost"
    BUSY = "busy"
    EXTENDED = "extended"
    CANCEL_REQUESTED = "cancel_requested"
    INVALID = "invalid"


_Lease = Annotated[LeaseToken, Meta(description="The lease, as it was given.")]


class LeaseRequest(Request):
    """Who wants how many tasks of what, and how long they would wait for the first."""

    worker_id: Annotated[Worker, Meta(description="The worker's name, shown with its tasks.")]
    queues: (
        Annotated[
            list[LeasedQueue],
            Meta(max_length=BATCH_LIMIT, description="In order of preference; `default` if empty."),
        ]
        | None
    ) = None
    types: (
        Annotated[
            list[Type],
            Meta(max_length=BATCH_LIMIT, description="Only these types; any if empty."),
        ]
        | None
    ) = None
    max_tasks: (
        Annotated[int, Meta(ge=1, le=BATCH_LIMIT, description="How many at most; 1 if not given.")]
        | None
    ) = None
    max_last: (
        Annotated[
            int,
            Meta(ge=0, le=BATCH_LIMIT, description="How many may be on their last attempt."),
        ]
        | None
    ) = None
    lease_duration: Annotated[LeaseLength | None, Meta(description="`30s` if not given.")] = None
    wait: Annotated[
        WaitLength | None, Meta(description="How long to wait for the first; `0s` if not given.")
    ] = None
    confirm_within: Annotated[
        ConfirmLength | None,
        Meta(
            description="What is neither beaten nor reported so soon after this answer is given"
            " back unstarted: then an answer that gets lost costs no attempt."
        ),
    ] = None
    instance: Annotated[
        Instance | None,
        Meta(
            description="Drawn by the worker's process at its start. What the worker is asked to do"
            " is then remembered through all servers and their restarts."
        ),
    ] = None


class LeasedTask(Answer):
    """A leased task. The lease is what reports and heartbeats name."""

    lease: Annotated[str, Meta(description="Opaque; only its holder knows it.")]
    id: Id
    queue: str
    type: str
    payload: JsonObject
    attempt: Annotated[int, Meta(description="Which attempt this is, from 1.")]
    max_attempts: int
    remaining: Annotated[
        Seconds,
        Meta(
            description="How long the lease holds. Count it on your own clock, from the moment"
            " before the request was sent and what it `waited`."
        ),
    ]
    priority: int
    token: Annotated[str, Meta(description="The number of this lease; it only grows.")]
    run_after: Instant
    created_at: Instant
    leased_at: Instant
    tags: list[str]
    headers: dict[str, str]
    snoozes: Annotated[int, Meta(description="How often it was snoozed.")]
    timeout: Annotated[Seconds, Meta(description="How long this attempt may take.")] | UnsetType = (
        UNSET
    )
    key: str | UnsetType = UNSET
    retry: RetryPolicy | UnsetType = UNSET
    last_error: Annotated[str, Meta(description="The error of the attempt before.")] | UnsetType = (
        UNSET
    )


class LeaseResponse(Answer):
    """What was leased; maybe nothing."""

    tasks: list[LeasedTask]
    directive: Annotated[Directive, Meta(description="What the worker is asked to do.")]
    waited: Annotated[Seconds, Meta(description="How long the request waited in the server.")]


class HeartbeatRequest(Request):
    """Which leases, and how long they are to hold from now."""

    leases: Annotated[list[_Lease], Meta(max_length=HEARTBEAT_LIMIT)]
    extend_by: Annotated[
        LeaseLength | None, Meta(description="`30s` if not given. Never shortens a lease.")
    ] = None
    worker_id: Annotated[
        Worker | None, Meta(description="The answer tells what this worker is asked to do.")
    ] = None
    instance: Annotated[Instance | None, Meta(description="As in its leases.")] = None


class Beat(Answer):
    """What became of one lease: extended, cancel_requested, busy, lost or invalid."""

    answer: Reported
    remaining: Annotated[Seconds, Meta(description="How long it holds from now.")] | UnsetType = (
        UNSET
    )


class HeartbeatResponse(Answer):
    """One answer for each lease."""

    beats: Annotated[list[Beat], Meta(description="In the order of the request.")]
    directive: Annotated[Directive, Meta(description="What the worker is asked to do.")]


class CompleteRequest(Request):
    """A task that is done."""

    lease: _Lease
    result: Annotated[JsonValue, Meta(description="Stored if given.")] | UnsetType = UNSET


class CompleteResponse(Answer):
    """It is done."""

    answer: Reported


class Error(Request):
    """What went wrong in a handler; texts that are too long are cut."""

    type: Annotated[str | None, Meta(description="Such as `ValueError`.")] = None
    message: str | None = None
    traceback: str | None = None


class FailRequest(Request):
    """An attempt that failed."""

    lease: _Lease
    error: Error | None = None
    retry: Annotated[bool, Meta(description="False ends the task as failed.")] = True
    retry_after: Annotated[
        Length | None, Meta(description="How long to wait, instead of what its policy says.")
    ] = None
    reason: Annotated[Reason | None, Meta(description="Why it ends, if it does.")] = None


class FailResponse(Answer):
    """What became of the task."""

    answer: Reported
    retry_after: (
        Annotated[Seconds, Meta(description="With `requeued`: how long it waits.")] | UnsetType
    ) = UNSET


class SnoozeRequest(Request):
    """Not now."""

    lease: _Lease
    delay: Length


class SnoozeResponse(Answer):
    """What became of the task."""

    answer: Reported


class ReleaseRequest(Request):
    """Never started."""

    lease: _Lease


class ReleaseResponse(Answer):
    """What became of the task."""

    answer: Reported


class Completed(Request):
    """It is done."""

    result: Annotated[JsonValue, Meta(description="Stored if given.")] | UnsetType = UNSET


class Failed(Request):
    """It failed."""

    error: Error | None = None
    retry: Annotated[bool, Meta(description="False ends the task as failed.")] = True
    retry_after: Annotated[
        Length | None, Meta(description="How long to wait, instead of what its policy says.")
    ] = None
    reason: Annotated[Reason | None, Meta(description="Why it ends, if it does.")] = None


class GivenUp(Request):
    """Its handler gave it up: it ends as canceled."""

    error: Error | None = None
    reason: Annotated[Reason | None, Meta(description="Shown with the task.")] = None


class Snoozed(Request):
    """Not now."""

    delay: Length


class Released(Request):
    """It never started."""

    delay: Annotated[Length | None, Meta(description="At once if not given.")] = None


class Outcome(Request):
    """How one attempt ended: exactly one of these ways."""

    lease: _Lease
    complete: Completed | None = None
    fail: Failed | None = None
    cancel: GivenUp | None = None
    snooze: Snoozed | None = None
    release: Released | None = None


class ReportRequest(Request):
    """Outcomes of many leases."""

    outcomes: Annotated[
        list[Annotated[Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/Outcome"})]],
        Meta(max_length=BATCH_LIMIT, description="Each is read by itself: a bad one spoils none."),
    ]


class ReportAnswer(Answer):
    """What became of one."""

    answer: Reported
    retry_after: (
        Annotated[Seconds, Meta(description="With `requeued`: how long it waits.")] | UnsetType
    ) = UNSET
    problem: Annotated[Problem, Meta(description="With `invalid`: what was wrong.")] | UnsetType = (
        UNSET
    )


class ReportResponse(Answer):
    """One answer for each outcome."""

    answers: Annotated[list[ReportAnswer], Meta(description="In the order of the request.")]
