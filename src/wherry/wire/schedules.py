"""Schedules, and what became of their times, on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from wherry.commands.declaring import Stood
from wherry.domain.cron import Missed, Overlap, TickOutcome
from wherry.domain.schedule import Schedule, ScheduleSeen, Tick
from wherry.domain.state import State
from wherry.wire.tasks import (
    headers_of,
    headers_text,
    policy_text,
    read_declared_options,
    write_declared,
)
from wherry.wire.v1 import schedules_pb2 as pb
from wherry.wire.values import (
    STATES,
    Names,
    read_duration,
    read_instant,
    write_duration,
    write_instant,
    write_stored_policy,
)

MISSED: Final = Names(pb.MissedPolicy, Missed, "MISSED_POLICY")
OVERLAPS: Final = Names(pb.OverlapPolicy, Overlap, "OVERLAP_POLICY")
OUTCOMES: Final = Names(pb.TickOutcome, TickOutcome, "TICK_OUTCOME")
_INSTANTS: Final = ("created_at", "changed_at", "next_at", "last_at", "last_fired_at")
_LENGTHS: Final = (("timeout", "timeout_seconds"), ("ttl", "ttl_seconds"))


def write_schedule(seen: ScheduleSeen) -> pb.Schedule:
    """Return a schedule as it stands; headers and a policy that nobody can read are left out."""
    message = pb.Schedule(
        name=seen.name,
        cron=seen.cron,
        tz=seen.tz,
        type=seen.type,
        queue=seen.queue,
        priority=seen.priority,
        max_attempts=seen.max_attempts,
        tags=seen.tags,
        headers=headers_of(seen.headers_text),
        retry=write_stored_policy(seen.retry_text),
        payload=seen.payload_text,
        missed=MISSED.write(seen.missed),
        overlap=OVERLAPS.write(seen.overlap),
        by_hand=seen.by_hand,
        declared_by=seen.declared_by,
        last_task_id=seen.last_task_id,
        fired=seen.fired,
        missed_ticks=seen.missed_ticks,
        overlapped=seen.overlapped,
        paused_ticks=seen.paused_ticks,
        by_hand_runs=seen.by_hand_runs,
        trouble=seen.trouble,
    )
    for name in _INSTANTS:
        instant = getattr(seen, name)
        if instant is not None:
            getattr(message, name).CopyFrom(write_instant(instant))
    for name, attribute in _LENGTHS:
        seconds = getattr(seen, attribute)
        if seconds is not None:
            getattr(message, name).CopyFrom(write_duration(seconds))
    if seen.paused_at is not None:
        pause = pb.SchedulePause(
            paused_at=write_instant(seen.paused_at),
            actor=seen.paused_by or "",
            reason=seen.pause_reason or "",
        )
        message.pause.CopyFrom(pause)
    return message


def read_schedule(message: pb.Schedule) -> ScheduleSeen:
    """Return a schedule. Raises InvalidOption for what this version does not know."""
    instants = {name: _instant(message, name) for name in _INSTANTS}
    is_paused = message.HasField("pause")
    return ScheduleSeen(
        name=message.name,
        cron=message.cron,
        tz=message.tz,
        type=message.type,
        queue=message.queue,
        priority=message.priority,
        max_attempts=message.max_attempts,
        timeout_seconds=_length(message, "timeout"),
        ttl_seconds=_length(message, "ttl"),
        tags=tuple(message.tags),
        headers_text=headers_text(message.headers) or "{}",
        retry_text=policy_text(message),
        payload_text=message.payload,
        missed=MISSED.read(message.missed, option="missed"),
        overlap=OVERLAPS.read(message.overlap, option="overlap"),
        by_hand=message.by_hand,
        declared_by=message.declared_by,
        created_at=read_instant(message.created_at, option="created_at"),
        changed_at=read_instant(message.changed_at, option="changed_at"),
        next_at=instants["next_at"],
        last_at=instants["last_at"],
        last_fired_at=instants["last_fired_at"],
        last_task_id=message.last_task_id if message.HasField("last_task_id") else None,
        fired=message.fired,
        missed_ticks=message.missed_ticks,
        overlapped=message.overlapped,
        paused_ticks=message.paused_ticks,
        by_hand_runs=message.by_hand_runs,
        trouble=message.trouble if message.HasField("trouble") else None,
        paused_at=_instant(message.pause, "paused_at") if is_paused else None,
        paused_by=(message.pause.actor or None) if is_paused else None,
        pause_reason=(message.pause.reason or None) if is_paused else None,
    )


def write_new_schedule(schedule: Schedule) -> pb.NewSchedule:
    """Return a schedule that is to be added, or is declared."""
    message = pb.NewSchedule(
        name=schedule.name,
        cron=schedule.cron.expression,
        tz=schedule.cron.tz,
        missed=MISSED.write(schedule.missed),
        overlap=OVERLAPS.write(schedule.overlap),
    )
    write_declared(message, schedule.task)
    return message


def read_new_schedule(message: pb.NewSchedule) -> dict[str, Any]:
    """Return what was asked for, by the names of AskedSchedule, unchecked."""
    options = read_declared_options(message)
    if message.HasField("queue"):
        options["queue"] = message.queue
    asked: dict[str, Any] = {
        "name": message.name,
        "cron": message.cron,
        "type": message.type,
        "payload_text": message.payload,
        "options": options,
    }
    if message.tz:
        asked["tz"] = message.tz
    if message.missed:
        asked["missed"] = MISSED.read(message.missed, option="missed")
    if message.overlap:
        asked["overlap"] = OVERLAPS.read(message.overlap, option="overlap")
    return asked


def write_stood(stood: Stood) -> pb.DeclareSchedulesResponse:
    """Return what became of a declaration."""
    return pb.DeclareSchedulesResponse(
        added=stood.added,
        replaced=stood.replaced,
        gave_way=stood.gave_way,
        by_hand=stood.by_hand,
        foreign=stood.foreign,
        refused=stood.refused,
        no_room=stood.no_room,
        unknown_worker=stood.is_unknown,
    )


def read_stood(response: pb.DeclareSchedulesResponse) -> Stood:
    """Return what became of a declaration; the server alone knows what is news."""
    return Stood(
        added=tuple(response.added),
        replaced=tuple(response.replaced),
        gave_way=tuple(response.gave_way),
        by_hand=tuple(response.by_hand),
        foreign=tuple(response.foreign),
        refused=tuple(response.refused),
        no_room=tuple(response.no_room),
        is_unknown=response.unknown_worker,
    )


def write_tick(tick: Tick) -> pb.Tick:
    """Return what became of a time, or of several."""
    message = pb.Tick(
        planned_at=write_instant(tick.planned_at),
        until_at=write_instant(tick.until_at),
        count=tick.n,
        outcome=OUTCOMES.write(tick.outcome),
        at=write_instant(tick.at),
        task_id=tick.task_id,
        reason=tick.reason,
    )
    if tick.state is not None:
        message.state = STATES.write(State(tick.state))
    return message


def read_tick(message: pb.Tick) -> Tick:
    """Return what became of a time, or of several."""
    return Tick(
        planned_at=read_instant(message.planned_at, option="planned_at"),
        until_at=read_instant(message.until_at, option="until_at"),
        n=message.count,
        outcome=OUTCOMES.read(message.outcome, option="outcome"),
        at=read_instant(message.at, option="at"),
        task_id=message.task_id if message.HasField("task_id") else None,
        reason=message.reason if message.HasField("reason") else None,
        state=(STATES.read(message.state, option="state") if message.HasField("state") else None),
    )


def _instant(message: Any, name: str) -> datetime | None:
    found = message.HasField(name)
    return read_instant(getattr(message, name), option=name) if found else None


def _length(message: Any, name: str) -> float | None:
    found = message.HasField(name)
    return read_duration(getattr(message, name), option=name) if found else None
