"""What people ask about tasks as JSON, field by field as in `proto/wherry/v1/tasks.proto`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from wherry.domain.state import State
from wherry.server.http.bodies import Answer
from wherry.server.http.fields import Id, Instant
from wherry.server.http.filter_bodies import TaskQuery


class Reason(Answer):
    """One reason."""

    code: Annotated[str, Meta(description="Stable, for programs, such as `queue_paused`.")]
    text: Annotated[str, Meta(description="For people: what holds it.")]
    advice: Annotated[str, Meta(description="For people: what to do about it.")] | UnsetType = UNSET
    at: Annotated[Instant, Meta(description="The moment that it is about.")] | UnsetType = UNSET


class WhyTaskResponse(Answer):
    """Why a task is where it is."""

    id: Id
    reasons: Annotated[list[Reason], Meta(description="At least one, the most important first.")]
    state: Annotated[State, Meta(description="Left out if there is no such task.")] | UnsetType = (
        UNSET
    )
    queue: str | UnsetType = UNSET
    at: Annotated[Instant, Meta(description="When this was so.")] | UnsetType = UNSET


class GroupDeadTasksQuery(TaskQuery):
    """Which dead and failed tasks to group."""


class DeadGroup(Answer):
    """Tasks whose errors have the same cause, as far as can be told."""

    fingerprint: Annotated[str, Meta(description="Names them in a filter.")]
    type: str
    tasks: Annotated[int, Meta(description="How many there are.")]
    first_at: Annotated[Instant, Meta(description="When the first of them ended.")]
    last_at: Annotated[Instant, Meta(description="When the last of them ended.")]
    sample_id: Annotated[Id, Meta(description="The newest of them.")]
    sample_error: Annotated[str, Meta(description="The beginning of its error.")]
    queues: Annotated[list[str], Meta(description="Where they are, ten queues at most.")]
    spread: Annotated[
        list[int],
        Meta(
            description="How many ended in each twenty-fourth of the time from `since` until now."
        ),
    ]


class GroupDeadTasksResponse(Answer):
    """Groups of dead and failed tasks."""

    groups: Annotated[list[DeadGroup], Meta(description="The largest first, 100 at most.")]
    capped: Annotated[
        bool, Meta(description="Whether there may be older ones: the newest 20,000 are looked at.")
    ]
    since: (
        Annotated[Instant, Meta(description="When the first of all of them ended.")] | UnsetType
    ) = UNSET
