"""Schedules: when each comes next, what became of its times, and running and pausing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from wherry.doctor.schedules import LATE_SECONDS
from wherry.domain.cron import Cron, TickOutcome
from wherry.domain.schedule import ScheduleSeen, Tick
from wherry.domain.state import State
from wherry.errors import InvalidOption, WherryError
from wherry.server.caller import Right
from wherry.server.dashboard.asking import Action, Page, Question, Shown, Visit, Went
from wherry.server.dashboard.pages.task import shown_text
from wherry.server.dashboard.pages.task_actions import REASON, reason_of
from wherry.server.dashboard.task_words import STATES
from wherry.server.dashboard.turning import leaf_of

_TICKS: Final = 50
_NEXT_TIMES: Final = 5
# What became of a time: its kind, which says colour and icon, and its words.
_OUTCOMES: Final = {
    TickOutcome.FIRED: ("good", "Fired"),
    TickOutcome.MISSED: ("warn", "Missed"),
    TickOutcome.OVERLAPPED: ("idle", "Last one still ran"),
    TickOutcome.PAUSED: ("paused", "Paused"),
    TickOutcome.BY_HAND: ("busy", "Run by hand"),
}
_MISSED_WORDS: Final = {
    "last": "the last of them is made up for",
    "all": "all of them are made up for",
    "skip": "they are passed over",
}
_OVERLAP_WORDS: Final = {
    "allow": "it comes all the same",
    "skip": "it is passed over",
}


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule as it is listed; `state` says how it fares: bad, warn, paused, good or idle."""

    seen: ScheduleSeen
    state: str
    state_text: str


@dataclass(frozen=True, slots=True)
class TickRow:
    """What became of a time, as it is listed, with the state of its task.

    `local` is the time on the clock of the schedule's zone.
    """

    tick: Tick
    local: datetime
    kind: str
    word: str
    task_kind: str = ""
    task_word: str = ""


async def show_schedules(visit: Visit) -> Shown:
    """List the schedules, those in trouble first."""
    found = await visit.read(visit.service.list_schedules)
    wanted = visit.query.get("q", "").strip().lower()
    rows = rows_of([seen for seen in found if _fits(seen, wanted)], datetime.now(UTC))
    values = {"leaf": leaf_of(visit, rows), "known": len(found), "wanted": wanted}
    return Shown("schedules.html", "Schedules", values)


async def show_schedule(visit: Visit) -> Shown:
    """Show one schedule: its times, its task, and its history."""
    name = _asked_name(visit)
    before = _moment(visit.query.get("before", ""))
    seen = await visit.read(visit.service.get_schedule, name=name)
    ticks = await visit.read(visit.service.list_ticks, name=name, limit=_TICKS + 1, before=before)
    page = ticks[:_TICKS]
    values = {
        "seen": seen,
        "row": row_of(seen, datetime.now(UTC)),
        "times": _next_times(seen),
        "payload": await shown_text(visit, seen.payload_text, of="payload"),
        "headers": await _headers(visit, seen),
        "ticks": [_tick(seen, tick) for tick in page],
        "next_before": page[-1].planned_at.isoformat() if len(ticks) > _TICKS else None,
        "is_later": before is not None,
        "missed_words": _MISSED_WORDS.get(seen.missed, seen.missed),
        "overlap_words": _OVERLAP_WORDS.get(seen.overlap, seen.overlap),
    }
    return Shown("schedule.html", seen.name, values)


def rows_of(found: Sequence[ScheduleSeen], now: datetime) -> list[ScheduleRow]:
    """Judge schedules, and put those in trouble first."""
    order = ("bad", "warn", "paused", "good", "idle")
    rows = [row_of(seen, now) for seen in found]
    return sorted(rows, key=lambda row: (order.index(row.state), row.seen.name))


def row_of(seen: ScheduleSeen, now: datetime) -> ScheduleRow:
    """Judge a schedule by when it comes next."""
    if seen.trouble is not None:
        return ScheduleRow(seen, "bad", "Cannot be told")
    if seen.paused_at is not None:
        return ScheduleRow(seen, "paused", "Paused")
    if seen.next_at is None:
        return ScheduleRow(seen, "idle", "Nobody declares it")
    if (seen.late_seconds(now) or 0.0) >= LATE_SECONDS:
        return ScheduleRow(seen, "warn", "Late")
    return ScheduleRow(seen, "good", "On time")


def _fits(seen: ScheduleSeen, wanted: str) -> bool:
    return wanted in f"{seen.name}\n{seen.type}\n{seen.queue}".lower()


def _next_times(seen: ScheduleSeen) -> list[datetime]:
    """Return the next times, in the schedule's zone; none that cannot be told."""
    if seen.next_at is None:
        return []
    local = seen.next_local
    try:
        behind = list(islice(Cron(seen.cron, seen.tz).after(seen.next_at), _NEXT_TIMES - 1))
    except (WherryError, ValueError):
        behind = []
    zone = None if local is None else local.tzinfo
    return [each.astimezone(zone) for each in (seen.next_at, *behind)]


async def _headers(visit: Visit, seen: ScheduleSeen) -> object:
    text = seen.headers_text
    return None if text in ("", "{}") else await shown_text(visit, text, of="headers")


def _tick(seen: ScheduleSeen, tick: Tick) -> TickRow:
    local = seen.local(tick.planned_at)
    kind, word = _OUTCOMES.get(tick.outcome, ("idle", str(tick.outcome)))
    if tick.state is None:
        return TickRow(tick, local, kind, word)
    return TickRow(tick, local, kind, word, *STATES[State(tick.state)])


def _asked_name(visit: Visit) -> str:
    name = visit.form.get("name") or visit.query.get("name", "")
    if not name:
        raise InvalidOption("name", name, "name the schedule in the address: ?name=NAME")
    return name


def _moment(text: str) -> datetime | None:
    """Return a moment of the address; what is none is left out, as if nobody had said it."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


async def ask_run(visit: Visit) -> Question:
    """Ask before a schedule is run."""
    return await _question(
        visit,
        title="Run {} now?",
        text="One task of it is stored at once, whatever its times. The next one stays what it is.",
        button="Run it now",
    )


async def ask_pause(visit: Visit) -> Question:
    """Ask before a schedule is paused."""
    return await _question(
        visit,
        title="Pause {}?",
        text="It brings no more tasks until it is resumed. Those that are there run, and running it"
        " by hand works.",
        button="Pause schedule",
    )


async def ask_resume(visit: Visit) -> Question:
    """Ask before a schedule is resumed."""
    return await _question(
        visit,
        title="Resume {}?",
        text="It brings tasks again from its next time on. The times of the pause are not made up.",
        button="Resume schedule",
    )


async def ask_delete(visit: Visit) -> Question:
    """Ask before a schedule is deleted."""
    return await _question(
        visit,
        title="Delete {}?",
        text="It goes with its history; its tasks stay. A worker that declares it brings it back.",
        button="Delete schedule",
        danger=True,
    )


async def run(visit: Visit) -> Went:
    """Run a schedule."""
    name = _asked_name(visit)
    stored = await visit.service.run_schedule(visit.caller, name=name, reason=reason_of(visit))
    return Went(_to(visit, name), f"Task {stored.id} of {name} is stored.")


async def pause(visit: Visit) -> Went:
    """Pause a schedule."""
    name = _asked_name(visit)
    changed = await visit.service.pause_schedule(visit.caller, name=name, reason=reason_of(visit))
    return Went(_to(visit, name), f"{name} is paused." if changed else f"{name} was paused before.")


async def resume(visit: Visit) -> Went:
    """Resume a schedule."""
    name = _asked_name(visit)
    changed = await visit.service.resume_schedule(visit.caller, name=name, reason=reason_of(visit))
    return Went(_to(visit, name), f"{name} is resumed." if changed else f"{name} was not paused.")


async def delete(visit: Visit) -> Went:
    """Delete a schedule that nobody declares."""
    name = _asked_name(visit)
    gone = await visit.service.delete_schedule(visit.caller, name=name, reason=reason_of(visit))
    if gone:
        return Went(visit.link("schedules"), f"{name} is deleted.")
    said = f"A live worker declares {name}: take it out of the code first, or pause it."
    return Went(_to(visit, name), said, is_good=False)


def _to(visit: Visit, name: str) -> str:
    return visit.link("schedule", name=name)


async def _question(
    visit: Visit, *, title: str, text: str, button: str, danger: bool = False
) -> Question:
    name = _asked_name(visit)
    seen = await visit.read(visit.service.get_schedule, name=name)
    visit.caller.require(Right.ADMIN, seen.queue)
    return Question(
        title=title.format(name),
        text=text,
        button=button,
        back=_to(visit, name),
        danger=danger,
        facts=(
            ("Comes", f"{seen.cron} in {seen.tz}"),
            ("Task", f"{seen.type} in {seen.queue}"),
        ),
        fields=(REASON,),
        kept=(("name", name),),
    )


PAGES = (
    Page("schedules", show_schedules, nav="schedules"),
    Page("schedule", show_schedule, nav="schedules"),
)
ACTIONS = (
    Action("run-schedule", ask_run, run, nav="schedules"),
    Action("pause-schedule", ask_pause, pause, nav="schedules"),
    Action("resume-schedule", ask_resume, resume, nav="schedules"),
    Action("delete-schedule", ask_delete, delete, nav="schedules"),
)
