"""Schedules over HTTP."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from wherry.domain.schedule import ScheduleSeen, Tick
from wherry.domain.state import State
from wherry.server.http import schedule_bodies as bodies
from wherry.server.http.call import Call, Reply
from wherry.server.http.fields import (
    given,
    read_instant,
    write_instant,
    write_instant_if,
    write_seconds,
)
from wherry.server.http.task_calls import declared_options, payload_of, raw_or, stored_policy
from wherry.server.service import AskedSchedule, within
from wherry.wire.tasks import headers_of


async def list_schedules(call: Call, _query: object) -> Reply:
    """List the schedules there are."""
    found = await call.service.list_schedules(call.caller)
    return Reply(bodies.ListSchedulesResponse(schedules=[_schedule(seen) for seen in found]))


async def get_schedule(call: Call, query: bodies.GetScheduleRequest) -> Reply:
    """Read one schedule."""
    seen = await call.service.get_schedule(call.caller, name=query.name)
    return Reply(bodies.GetScheduleResponse(schedule=_schedule(seen)))


async def list_ticks(call: Call, query: bodies.ListTicksRequest) -> Reply:
    """List what became of a schedule's times."""
    ticks = await call.service.list_ticks(
        call.caller,
        name=query.name,
        limit=query.page_size or 100,
        before=read_instant(query.before, option="before"),
    )
    return Reply(bodies.ListTicksResponse(ticks=[_tick(tick) for tick in ticks]))


async def add_schedule(call: Call, body: bodies.AddScheduleRequest) -> Reply:
    """Add a schedule by hand: 201 for a new one, 200 if there is one of its name."""
    added = await call.service.add_schedule(
        call.caller, schedule=_asked(body.schedule), reason=body.reason or None
    )
    return Reply(bodies.AddScheduleResponse(added=added), 201 if added else 200)


async def declare_schedules(call: Call, body: bodies.DeclareSchedulesRequest) -> Reply:
    """Let stand what the code of a worker declares."""
    schedules: list[AskedSchedule] = []
    for n, each in enumerate(body.schedules):
        with within(f"schedules[{n}]"):
            schedules.append(_asked(each))
    stood = await call.service.declare_schedules(
        call.caller, worker=body.worker_id, instance=body.instance, schedules=schedules
    )
    answer = bodies.DeclareSchedulesResponse(
        added=list(stood.added),
        replaced=list(stood.replaced),
        gave_way=list(stood.gave_way),
        by_hand=list(stood.by_hand),
        foreign=list(stood.foreign),
        refused=list(stood.refused),
        no_room=list(stood.no_room),
        unknown_worker=stood.is_unknown,
    )
    return Reply(answer)


async def run_schedule(call: Call, body: bodies.RunScheduleRequest) -> Reply:
    """Store one task of a schedule now."""
    stored = await call.service.run_schedule(
        call.caller, name=body.name, reason=body.reason or None
    )
    location = {"location": f"tasks/{stored.id}"}
    return Reply(bodies.RunScheduleResponse(id=str(stored.id)), 201, location)


async def pause_schedule(call: Call, body: bodies.PauseScheduleRequest) -> Reply:
    """Let a schedule bring no task until it is resumed."""
    changed = await call.service.pause_schedule(
        call.caller, name=body.name, reason=body.reason or None
    )
    return Reply(bodies.PauseScheduleResponse(changed=changed))


async def resume_schedule(call: Call, body: bodies.ResumeScheduleRequest) -> Reply:
    """Let a paused schedule bring tasks again."""
    changed = await call.service.resume_schedule(
        call.caller, name=body.name, reason=body.reason or None
    )
    return Reply(bodies.ResumeScheduleResponse(changed=changed))


async def delete_schedule(call: Call, body: bodies.DeleteScheduleRequest) -> Reply:
    """Delete a schedule that no live worker declares."""
    changed = await call.service.delete_schedule(
        call.caller, name=body.name, reason=body.reason or None
    )
    return Reply(bodies.DeleteScheduleResponse(changed=changed))


def _asked(body: bodies.NewSchedule) -> AskedSchedule:
    own = {"tz": body.tz, "missed": body.missed, "overlap": body.overlap}
    return AskedSchedule(
        body.name,
        body.cron,
        body.type,
        payload_of(body),
        declared_options(body),
        **{name: value for name, value in own.items() if value is not None},
    )


def _schedule(seen: ScheduleSeen) -> bodies.Schedule:
    return bodies.Schedule(
        name=seen.name,
        cron=seen.cron,
        tz=seen.tz,
        type=seen.type,
        queue=seen.queue,
        priority=seen.priority,
        max_attempts=seen.max_attempts,
        tags=list(seen.tags),
        headers=headers_of(seen.headers_text),
        payload=raw_or(seen.payload_text, "{}"),
        missed=seen.missed,
        overlap=seen.overlap,
        by_hand=seen.by_hand,
        declared_by=seen.declared_by,
        created_at=write_instant(seen.created_at),
        changed_at=write_instant(seen.changed_at),
        fired=seen.fired,
        missed_ticks=seen.missed_ticks,
        overlapped=seen.overlapped,
        paused_ticks=seen.paused_ticks,
        by_hand_runs=seen.by_hand_runs,
        timeout=write_seconds(seen.timeout_seconds),
        ttl=write_seconds(seen.ttl_seconds),
        retry=stored_policy(seen.retry_text),
        next_at=write_instant_if(seen.next_at),
        last_at=write_instant_if(seen.last_at),
        last_fired_at=write_instant_if(seen.last_fired_at),
        last_task_id=UNSET if seen.last_task_id is None else str(seen.last_task_id),
        trouble=given(seen.trouble),
        pause=_pause(seen),
    )


def _pause(seen: ScheduleSeen) -> bodies.SchedulePause | UnsetType:
    if seen.paused_at is None:
        return UNSET
    return bodies.SchedulePause(
        paused_at=write_instant(seen.paused_at),
        actor=given(seen.paused_by),
        reason=given(seen.pause_reason),
    )


def _tick(tick: Tick) -> bodies.Tick:
    return bodies.Tick(
        planned_at=write_instant(tick.planned_at),
        until_at=write_instant(tick.until_at),
        count=tick.n,
        outcome=tick.outcome,
        at=write_instant(tick.at),
        task_id=UNSET if tick.task_id is None else str(tick.task_id),
        reason=given(tick.reason),
        state=UNSET if tick.state is None else State(tick.state),
    )
