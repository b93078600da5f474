"""How schedules and their times are shown."""

from __future__ import annotations

from dataclasses import asdict
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from wherry.cli.output import Column, Output
from wherry.cli.text import RawJSON, moment, plain
from wherry.domain.counting import count
from wherry.domain.durations import span
from wherry.domain.stored import decode

if TYPE_CHECKING:
    from wherry.domain.schedule import ScheduleSeen, Tick

_SCHEDULES = (
    Column("schedule"),
    Column("state", whole=True),
    Column("cron", whole=True),
    Column("zone", whole=True),
    Column("next", whole=True),
    Column("next in UTC", whole=True),
    Column("last", whole=True),
    Column("fired", whole=True, right=True),
    Column("missed", whole=True, right=True),
    Column("overlapped", whole=True, right=True),
)
_TICKS = (
    Column("planned", whole=True),
    Column("times", whole=True, right=True),
    Column("outcome", whole=True),
    Column("task", whole=True, right=True),
    Column("state", whole=True),
    Column("late by", whole=True, right=True),
    Column("reason"),
)


def state_of(schedule: ScheduleSeen) -> str:
    """Return in a word whether a schedule brings tasks."""
    if schedule.paused_at is not None:
        return "paused"
    if schedule.next_at is None:
        return "not declared"
    return "trouble" if schedule.trouble is not None else "active"


def schedule_fields(schedule: ScheduleSeen) -> dict[str, Any]:
    """Return a schedule for JSON; its payload is the very text that is stored."""
    # Not `asdict`, which copies what is in it, too: of twenty thousand that takes seconds.
    fields = {each.name: getattr(schedule, each.name) for each in dataclass_fields(schedule)}
    local = schedule.next_local
    fields["state"] = state_of(schedule)
    # With the offset of its own zone, where all other instants are in UTC.
    fields["next_local"] = None if local is None else local.isoformat()
    for name in ("payload", "headers"):
        fields[name] = RawJSON(fields.pop(f"{name}_text"))
    retry = fields.pop("retry_text")
    fields["retry"] = None if retry is None else RawJSON(retry)
    return fields


def show_schedules(out: Output, schedules: list[ScheduleSeen]) -> None:
    """Answer with a list of schedules."""
    if out.as_json:
        out.json({"schedules": [schedule_fields(each) for each in schedules]})
    elif not schedules:
        out.note("no schedules: declare one with @app.schedule(...), and start a worker")
    else:
        out.table(_SCHEDULES, map(_row, schedules))


def show_schedule(out: Output, schedule: ScheduleSeen) -> None:
    """Answer with all that is known of one schedule."""
    if out.as_json:
        out.json(schedule_fields(schedule))
        return
    out.line(f"{plain(schedule.name)}: {state_of(schedule)}", bold=True)
    for name, value in _told(schedule):
        out.line(f"  {name:<13} {plain(value)}")


def show_ticks(out: Output, ticks: list[Tick], *, limit: int) -> None:
    """Answer with what became of a schedule's times."""
    before = ticks[-1].planned_at if len(ticks) == limit else None
    if out.as_json:
        out.json({"ticks": [asdict(tick) for tick in ticks], "before": before})
    elif not ticks:
        out.note("none of its times has come yet")
    else:
        out.table(_TICKS, map(_tick_row, ticks))
        if before is not None:
            out.note(f"there may be more: --before {before.astimezone(UTC).isoformat()}")


def _row(schedule: ScheduleSeen) -> tuple[str, ...]:
    local = schedule.next_local
    return (
        schedule.name,
        state_of(schedule),
        schedule.cron,
        schedule.tz,
        "" if local is None else local.isoformat(" ", "seconds"),
        _utc(schedule.next_at),
        moment(schedule.last_fired_at),
        f"{schedule.fired:,}",
        f"{schedule.missed_ticks:,}",
        f"{schedule.overlapped:,}",
    )


def _told(schedule: ScheduleSeen) -> list[tuple[str, str]]:
    local = schedule.next_local
    next_at = ""
    if local is not None:
        next_at = f"{local.isoformat(' ', 'seconds')} {schedule.tz} ({_utc(schedule.next_at)} UTC)"
    elif schedule.paused_at is None:
        next_at = "none: no live worker declares it; `wherry cron delete` removes it for good"
    paused = ""
    if schedule.paused_at is not None:
        by = f" by {schedule.paused_by}" if schedule.paused_by else ""
        why = f": {schedule.pause_reason}" if schedule.pause_reason else ""
        paused = f"since {moment(schedule.paused_at)}{by}{why}"
    code = count(schedule.declared_by, "live worker")
    made = "by hand" if schedule.by_hand else f"in the code of {code}"
    said = [
        ("cron", f"{schedule.cron} ({schedule.tz})"),
        ("next", next_at),
        ("paused", paused),
        ("trouble", schedule.trouble or ""),
        ("type", schedule.type),
        ("queue", schedule.queue),
        ("payload", schedule.payload_text),
        ("priority", str(schedule.priority) if schedule.priority else ""),
        ("max attempts", str(schedule.max_attempts)),
        ("timeout", "" if schedule.timeout_seconds is None else f"{schedule.timeout_seconds:g} s"),
        ("ttl", "" if schedule.ttl_seconds is None else f"{schedule.ttl_seconds:g} s"),
        ("retry", schedule.retry_text or ""),
        ("tags", ", ".join(schedule.tags)),
        ("headers", schedule.headers_text if decode(schedule.headers_text) else ""),
        ("missed", schedule.missed),
        ("overlap", schedule.overlap),
        ("declared", made),
        ("last", _last(schedule)),
        ("ticks", _counts(schedule)),
        ("by hand", count(schedule.by_hand_runs, "run") if schedule.by_hand_runs else ""),
        ("made", f"{moment(schedule.created_at)}, changed {moment(schedule.changed_at)}"),
    ]
    return [(name, value) for name, value in said if value]


def _last(schedule: ScheduleSeen) -> str:
    if schedule.last_fired_at is None:
        return ""
    return f"{moment(schedule.last_fired_at)}, task {schedule.last_task_id}"


def _counts(schedule: ScheduleSeen) -> str:
    return (
        f"{schedule.fired:,} fired, {schedule.missed_ticks:,} missed,"
        f" {schedule.overlapped:,} overlapped, {schedule.paused_ticks:,} paused"
    )


def _tick_row(tick: Tick) -> tuple[str, ...]:
    planned = moment(tick.planned_at)
    if tick.n > 1:
        planned += f" to {moment(tick.until_at)}"
    return (
        planned,
        f"{tick.n:,}",
        tick.outcome,
        "" if tick.task_id is None else str(tick.task_id),
        tick.state or "",
        span(tick.at - tick.until_at) if tick.outcome == "fired" else "",
        tick.reason or "",
    )


def _utc(instant: datetime | None) -> str:
    return "" if instant is None else instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
