"""Queues, workers and the server as JSON: `proto/wherry/v1/operators.proto`."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from wherry.domain.limits import MOST
from wherry.domain.worker import Directive
from wherry.server.http.bodies import Answer, Request
from wherry.server.http.fields import (
    BATCH_LIMIT,
    Instance,
    Instant,
    PausedQueue,
    Period,
    Reason,
    Seconds,
)
from wherry.server.http.fields import Queue as QueueName
from wherry.server.http.fields import Type as TypeName
from wherry.server.http.fields import Worker as WorkerName

_MAX_RUNNING: Final = "No more of its tasks are leased at once, over all workers."
Count: TypeAlias = Annotated[int, Meta(ge=1, le=MOST)]


class NoQuery(Request):
    """No parameter is known."""


class Pause(Answer):
    """That a queue is paused."""

    paused_at: Instant
    actor: Annotated[str, Meta(description="By whom.")] | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class StartRate(Answer):
    """How many tasks may start in a time."""

    starts: Annotated[int, Meta(description="So many.")]
    per: Annotated[Seconds, Meta(description="In so long a time.")]
    burst: Annotated[int, Meta(description="So many of them in one go.")]


class QueueLimits(Answer):
    """How much of a queue may run."""

    max_running: Annotated[int, Meta(description=_MAX_RUNNING)] | UnsetType = UNSET
    rate: StartRate | UnsetType = UNSET


class Queue(Answer):
    """How many live tasks a queue holds, by what they wait for."""

    name: str
    ready: Annotated[int, Meta(description="Wait for a worker.")]
    delayed: Annotated[int, Meta(description="Wait for their time.")]
    parked: Annotated[int, Meta(description="Wait for a worker that knows their type.")]
    leased: Annotated[int, Meta(description="Workers have them.")]
    oldest_due: (
        Annotated[Seconds, Meta(description="The age of the oldest task that is due.")] | UnsetType
    ) = UNSET
    pause: Annotated[Pause, Meta(description="While it is paused.")] | UnsetType = UNSET
    limits: Annotated[QueueLimits, Meta(description="If it has any.")] | UnsetType = UNSET


class ListQueuesResponse(Answer):
    """What each queue holds."""

    queues: Annotated[list[Queue], Meta(description="By name.")]


class PauseQueueRequest(Request):
    """A queue to pause; it need not hold any task."""

    queue: QueueName
    reason: Reason | None = None


class PauseQueueResponse(Answer):
    """It is paused."""

    changed: Annotated[bool, Meta(description="False if it was paused before.")]


class PausedType(Answer):
    """A type that is paused."""

    type: str
    pause: Pause
    queue: Annotated[str, Meta(description="Where; left out for all queues.")] | UnsetType = UNSET


class ResumeQueueRequest(Request):
    """A queue to resume."""

    queue: QueueName
    reason: Reason | None = None


class ResumeQueueResponse(Answer):
    """It is not paused."""

    changed: Annotated[bool, Meta(description="False if it was not paused.")]
    still_paused: Annotated[
        list[PausedType], Meta(description="Types that are paused in it, or in all queues.")
    ]


class AskedRate(Request):
    """How many tasks may start in a time."""

    starts: Annotated[Count, Meta(description="So many.")]
    per: Period | None = None
    burst: (
        Annotated[
            Count,
            Meta(description="So many of them in one go; if not given what comes in a second."),
        ]
        | None
    ) = None


class AskedLimits(Request):
    """How much of a queue may run; what is not given is not limited."""

    max_running: Annotated[Count, Meta(description=_MAX_RUNNING)] | None = None
    rate: AskedRate | None = None


class SetQueueLimitsRequest(Request):
    """The limits of a queue: these and no others, none at all if they are not given."""

    queue: QueueName
    limits: AskedLimits | None = None
    reason: Reason | None = None


class SetQueueLimitsResponse(Answer):
    """They hold."""

    changed: Annotated[bool, Meta(description="False if they were the same before.")]


class ListPausedTypesResponse(Answer):
    """Of which types nothing is leased."""

    types: Annotated[list[PausedType], Meta(description="By name and queue.")]


class PauseTypeRequest(Request):
    """A type to pause: in one queue, or in all of them if none is given."""

    type: TypeName
    queue: PausedQueue | None = None
    reason: Reason | None = None


class PauseTypeResponse(Answer):
    """It is paused."""

    changed: Annotated[bool, Meta(description="False if it was paused there before.")]


class ResumeTypeRequest(Request):
    """A type to resume, where it was paused."""

    type: TypeName
    queue: PausedQueue | None = None
    reason: Reason | None = None


class ResumeTypeResponse(Answer):
    """It is not paused."""

    changed: Annotated[bool, Meta(description="False if it was not paused there.")]
    still_paused: Annotated[
        list[PausedType],
        Meta(description="Where else it is paused, of what the caller may know of."),
    ]
    queue_pause: (
        Annotated[Pause, Meta(description="If a queue was named that is itself paused.")]
        | UnsetType
    ) = UNSET


class Worker(Answer):
    """A worker as it was last heard of."""

    instance: Annotated[str, Meta(description="Unique, also after a restart under its name.")]
    name: str
    host: str
    queues: Annotated[list[str], Meta(description="What it serves; empty for every queue.")]
    types: Annotated[list[str], Meta(description="What it knows; empty for any type.")]
    started_at: Instant
    beat_at: Annotated[Instant, Meta(description="When it was last heard of.")]
    alive: Annotated[bool, Meta(description="Whether that is not too long ago.")]
    directive: Annotated[Directive, Meta(description="What it was asked to do.")]
    pid: Annotated[int, Meta(description="Its process on its host.")] | UnsetType = UNSET
    slots: Annotated[int, Meta(description="How many tasks it runs at once.")] | UnsetType = UNSET
    version: Annotated[str, Meta(description="Of the package that it runs.")] | UnsetType = UNSET
    memory_bytes: (
        Annotated[int, Meta(description="How much memory its process holds.")] | UnsetType
    ) = UNSET
    deaf_since: (
        Annotated[Instant, Meta(description="Since when it hears no notification, and only polls.")]
        | UnsetType
    ) = UNSET


class ListWorkersResponse(Answer):
    """Those that were heard of in the last day."""

    workers: Annotated[list[Worker], Meta(description="By name.")]


class DirectWorkersRequest(Request):
    """What to tell whom."""

    names: Annotated[list[WorkerName], Meta(min_length=1, max_length=BATCH_LIMIT)]
    directive: Annotated[
        Directive,
        Meta(
            description="`drain`: lease nothing more until told otherwise. `stop`: finish what runs"
            " and end. `none`: go on."
        ),
    ]
    reason: Reason | None = None


class DirectWorkersResponse(Answer):
    """Who will hear of it within seconds."""

    told: Annotated[int, Meta(description="How many live workers have these names.")]


class LeaveWorkerRequest(Request):
    """Who leaves."""

    worker_id: Annotated[WorkerName, Meta(description="The worker's name, as in its leases.")]
    instance: Annotated[Instance | None, Meta(description="As in its leases.")] = None


class LeaveWorkerResponse(Answer):
    """Goodbye."""


class GetServerResponse(Answer):
    """What this server is."""

    version: Annotated[str, Meta(description="Of the wherry package, such as `0.1.0`.")]
    batch_limit: Annotated[int, Meta(description="The most items that a batch may hold.")]
    request_limit_bytes: Annotated[int, Meta(description="The largest request.")]
    longest_wait: Annotated[Seconds, Meta(description="The longest wait of a lease.")]
