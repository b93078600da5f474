"""Schedules as JSON, field by field as in `proto/wherry/v1/schedules.proto`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from wherry.domain.cron import LONGEST_EXPRESSION_BYTES, Missed, Overlap, TickOutcome
from wherry.domain.state import State
from wherry.server.http.bodies import Answer, Request
from wherry.server.http.fields import (
    BATCH_LIMIT,
    Id,
    Instance,
    Instant,
    JsonObject,
    PageSize,
    Reason,
    Seconds,
    Worker,
)
from wherry.server.http.fields import Type as Name
from wherry.server.http.task_bodies import DeclaredTask, RetryPolicy


class SchedulePause(Answer):
    """That a schedule is paused."""

    paused_at: Instant
    actor: Annotated[str, Meta(description="By whom.")] | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class Schedule(Answer):
    """A schedule as it stands in the database."""

    name: str
    cron: Annotated[str, Meta(description="When it comes, in its zone.")]
    tz: Annotated[str, Meta(description="Its zone, such as `Europe/Berlin`.")]
    type: str
    queue: str
    priority: int
    max_attempts: int
    tags: list[str]
    headers: dict[str, str]
    payload: JsonObject
    missed: Missed
    overlap: Overlap
    by_hand: Annotated[bool, Meta(description="Made by hand: for no worker to declare.")]
    declared_by: Annotated[int, Meta(description="How many live workers declare it.")]
    created_at: Instant
    changed_at: Annotated[Instant, Meta(description="When it was last declared otherwise.")]
    fired: Annotated[int, Meta(description="How many times brought a task.")]
    missed_ticks: Annotated[int, Meta(description="How many nobody settled in time.")]
    overlapped: Annotated[int, Meta(description="How many came while a task had not ended.")]
    paused_ticks: Annotated[int, Meta(description="How many came while it was paused.")]
    by_hand_runs: Annotated[int, Meta(description="How many times it was run by hand.")]
    timeout: Seconds | UnsetType = UNSET
    ttl: Seconds | UnsetType = UNSET
    retry: RetryPolicy | UnsetType = UNSET
    next_at: (
        Annotated[Instant, Meta(description="Left out while it is paused, or nobody declares it.")]
        | UnsetType
    ) = UNSET
    last_at: Annotated[Instant, Meta(description="The last that was settled.")] | UnsetType = UNSET
    last_fired_at: (
        Annotated[Instant, Meta(description="The last that brought a task.")] | UnsetType
    ) = UNSET
    last_task_id: Annotated[Id, Meta(description="That task.")] | UnsetType = UNSET
    trouble: (
        Annotated[str, Meta(description="Why its times cannot be told, if so.")] | UnsetType
    ) = UNSET
    pause: Annotated[SchedulePause, Meta(description="While it is paused.")] | UnsetType = UNSET


class NewSchedule(DeclaredTask, kw_only=True):
    """A schedule as somebody asks for it; all but its own fields are those of its tasks."""

    name: Name
    cron: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST_EXPRESSION_BYTES,
            description="When it comes, in its zone.",
        ),
    ]
    tz: Annotated[str | None, Meta(description="Such as `Europe/Berlin`; `UTC` if not given.")] = (
        None
    )
    missed: Annotated[Missed | None, Meta(description="`last` if not given.")] = None
    overlap: Annotated[Overlap | None, Meta(description="`allow` if not given.")] = None


class AddScheduleRequest(Request):
    """A schedule to add by hand."""

    schedule: NewSchedule
    reason: Reason | None = None


class AddScheduleResponse(Answer):
    """There is a schedule of this name."""

    added: Annotated[bool, Meta(description="False, and nothing changed, if there was one.")]


class DeclareSchedulesRequest(Request):
    """What the code of a worker declares; said at its start, and again each minute."""

    worker_id: Annotated[Worker, Meta(description="The worker's name.")]
    instance: Annotated[Instance, Meta(description="As in its leases.")]
    schedules: Annotated[list[NewSchedule], Meta(max_length=BATCH_LIMIT)]


class DeclareSchedulesResponse(Answer):
    """What became of it, by name; of what is in none of these all stood as it was declared."""

    added: list[str]
    replaced: list[str]
    gave_way: Annotated[
        list[str], Meta(description="Another live worker declares these otherwise, and newer.")
    ]
    by_hand: Annotated[list[str], Meta(description="Made by hand: they stand.")]
    foreign: Annotated[
        list[str], Meta(description="They stand for queues that the caller may not enqueue into.")
    ]
    unknown_worker: Annotated[bool, Meta(description="If true, say it again in a second.")]
    refused: Annotated[
        list[str],
        Meta(description="They are for queues that the caller may not enqueue into: nothing done."),
    ]
    no_room: Annotated[
        list[str],
        Meta(description="They are for queues that have 10,000 schedules already: nothing done."),
    ]


class ListSchedulesResponse(Answer):
    """The schedules whose queues the caller may read."""

    schedules: Annotated[list[Schedule], Meta(description="By name.")]


class GetScheduleRequest(Request):
    """Which schedule."""

    name: Name


class GetScheduleResponse(Answer):
    """A schedule."""

    schedule: Schedule


class ListTicksRequest(Request):
    """What became of which schedule's times."""

    name: Name
    page_size: PageSize | None = None
    before: Annotated[Instant | None, Meta(description="Those planned before: the next page.")] = (
        None
    )


class Tick(Answer):
    """What became of a planned time, or of several that follow one another."""

    planned_at: Annotated[Instant, Meta(description="The time, or the first of them.")]
    until_at: Annotated[Instant, Meta(description="The last of them.")]
    count: Annotated[int, Meta(description="How many they are.")]
    outcome: TickOutcome
    at: Annotated[Instant, Meta(description="When they were settled.")]
    task_id: Annotated[Id, Meta(description="The task that came of it.")] | UnsetType = UNSET
    reason: Annotated[str, Meta(description="Why it was run by hand.")] | UnsetType = UNSET
    state: Annotated[State, Meta(description="Of that task.")] | UnsetType = UNSET


class ListTicksResponse(Answer):
    """What became of a schedule's times."""

    ticks: Annotated[list[Tick], Meta(description="The newest first.")]


class RunScheduleRequest(Request):
    """A schedule to run once."""

    name: Name
    reason: Reason | None = None


class RunScheduleResponse(Answer):
    """A task is stored; the next time stays what it is."""

    id: Id


class PauseScheduleRequest(Request):
    """A schedule to pause."""

    name: Name
    reason: Reason | None = None


class PauseScheduleResponse(Answer):
    """It is paused."""

    changed: Annotated[bool, Meta(description="False if it was paused before.")]


class ResumeScheduleRequest(Request):
    """A schedule to resume."""

    name: Name
    reason: Reason | None = None


class ResumeScheduleResponse(Answer):
    """It is not paused; the times of the pause are passed over."""

    changed: Annotated[bool, Meta(description="False if it was not paused.")]


class DeleteScheduleRequest(Request):
    """A schedule to delete."""

    name: Name
    reason: Reason | None = None


class DeleteScheduleResponse(Answer):
    """What became of it; its tasks stay."""

    changed: Annotated[bool, Meta(description="False while a live worker declares it.")]
