"""One task: where it stands and why, every attempt, and what it carries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from wherry.domain.state import FINAL, State
from wherry.domain.task import Attempt, PausedType, Task
from wherry.domain.why import Code, Reason, Why
from wherry.errors import NotFound
from wherry.server.caller import Right
from wherry.server.dashboard.asking import Page, Shown, Visit
from wherry.server.dashboard.json_text import Text, parted
from wherry.server.dashboard.pages.task_actions import buttons
from wherry.server.dashboard.pauses import TypePauses
from wherry.server.dashboard.task_words import STATES, asked_id

# A longer text is shown to here, unless somebody asks for the whole of it.
SHOWN_CHARS: Final = 40_000
_TRACE: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A point of a task's life; `seconds` is how long it took, `at` when it was over or began."""

    kind: str
    title: str
    at: datetime | None
    worker: str | None = None
    seconds: float | None = None
    token: int | None = None
    note: str = ""
    error_type: str | None = None
    message: str | None = None
    traceback: str | None = None
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """A reason, and what can be done about it here: an action of ours, or a page."""

    reason: Reason
    kind: str
    do: str = ""
    to: str = ""
    is_action: bool = False


async def show_task(visit: Visit) -> Shown:
    """Show one task, or ask which."""
    if not visit.query.get("id"):
        return Shown("task_asked.html", "Which task?", status=404)
    id = asked_id(visit)
    try:
        task = await visit.read(visit.service.get_task, id=id)
    except NotFound:
        why = Why.not_found(id)
        values = {"reason": why.reasons[0], "id": id}
        return Shown("task_asked.html", f"There is no task {id}", values, 404)
    why = await visit.read(visit.service.why_task, id=id)
    pauses: Sequence[PausedType] = ()
    if any(reason.code == Code.TYPE_PAUSED for reason in why.reasons):
        found = await visit.read(visit.service.list_paused_types)
        pauses = TypePauses(tuple(found)).of(task.queue, task.type)
    kind, word = STATES[task.state]
    values = {
        "task": task,
        "state_kind": kind,
        "state_word": word,
        "is_final": task.state in FINAL,
        "told": [_told(visit, task, reason, pauses) for reason in why.reasons],
        "events": list(events(task)),
        "payload": await shown_text(visit, task.payload_text, of="payload"),
        "result": await shown_text(visit, task.result_text, of="result"),
        "headers": await shown_text(visit, task.headers_text, of="headers"),
        "retry": await shown_text(visit, task.retry_text, of="retry"),
        "trace_id": trace_id(task),
        "buttons": buttons(visit, task),
    }
    return Shown("task.html", f"Task {id}", values)


def events(task: Task) -> Iterator[Event]:
    """Yield a task's life, newest first."""
    yield from _end(task)
    for attempt in reversed(task.history):
        yield _of_attempt(attempt, is_newest=attempt is task.history[-1])
    yield Event(kind="enqueued", title="Enqueued", at=task.created_at)


def _end(task: Task) -> Iterator[Event]:
    match task.state:
        case State.LEASED:
            yield Event(
                kind="busy",
                title=f"Attempt {task.attempts} runs",
                at=task.started_at,
                worker=task.worker,
                token=task.token,
            )
        case State.SUCCEEDED:
            yield Event(
                kind="good",
                title=f"Attempt {task.attempts} succeeded",
                at=task.finished_at,
                worker=task.worker,
                seconds=_between(task.started_at, task.finished_at),
                token=task.token,
            )
        case State.QUEUED:
            if task.history or task.attempts == 0:
                title = "May run again" if task.history else "May run"
                yield Event(kind="clock", title=title, at=task.run_after)
        case _:
            kind, word = STATES[task.state]
            yield Event(
                kind=kind,
                title=word,
                at=task.finished_at,
                note=task.reason or "",
            )


def _of_attempt(attempt: Attempt, *, is_newest: bool) -> Event:
    titles = {"failed": "failed", "lost": "was lost with its worker", "canceled": "was canceled"}
    kinds = {"failed": "bad", "lost": "warn", "canceled": "idle"}
    return Event(
        kind=kinds.get(attempt.outcome, "idle"),
        title=f"Attempt {attempt.attempt} {titles.get(attempt.outcome, attempt.outcome)}",
        at=attempt.ended_at,
        worker=attempt.worker,
        seconds=_between(attempt.started_at, attempt.ended_at),
        token=attempt.token,
        error_type=attempt.error_type,
        message=attempt.message,
        traceback=attempt.traceback,
        is_open=is_newest,
    )


def _between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start).total_seconds()


def trace_id(task: Task) -> str | None:
    """Return the trace that a task is part of, by the header that its enqueue left."""
    found = _TRACE.search(task.headers_text or "") if task.headers_text else None
    return found[1] if found else None


async def shown_text(visit: Visit, text: str | None, *, of: str) -> Text | None:
    """Return a stored text as the page shows it: the beginning of a long one, unless asked."""
    if text is None:
        return None
    shown = await visit.json(text, of=of)
    return parted(shown, most=len(shown) if visit.query.get("whole") == "1" else SHOWN_CHARS)


_KINDS: Final = {
    Code.SUCCEEDED: "good",
    Code.FAILED: "bad",
    Code.DEAD: "dead",
    Code.CANCELED: "idle",
    Code.RUNNING: "busy",
    Code.NEXT: "clock",
    Code.DELAYED: "clock",
    Code.WAITS_FOR_RETRY: "clock",
    Code.SNOOZED: "clock",
    Code.TASKS_AHEAD: "clock",
    Code.WILL_EXPIRE: "clock",
    Code.QUEUE_PAUSED: "paused",
    Code.TYPE_PAUSED: "paused",
    Code.LIMIT_REACHED: "clock",
    Code.RATE_REACHED: "clock",
    Code.NO_WORKER: "bad",
    Code.QUEUE_NOT_SERVED: "bad",
    Code.TYPE_NOT_KNOWN: "bad",
}


def _told(visit: Visit, task: Task, reason: Reason, pauses: Sequence[PausedType]) -> Told:
    """Return a reason with what can be done about it here, by this visitor.

    *pauses* are those of the task's type, of which the first is the one that is told.
    """
    kind = _KINDS.get(Code(reason.code) if reason.code in set(Code) else Code.NEXT, "warn")
    may = visit.may(Right.ADMIN, task.queue)
    match reason.code:
        case Code.QUEUE_PAUSED if may:
            to = visit.link("resume", queue=task.queue, range=None)
            return Told(reason, kind, "Resume the queue", to, is_action=True)
        case Code.TYPE_PAUSED if pauses and visit.may(Right.ADMIN, pauses[0].queue):
            asked = {"type": task.type, "queue": pauses[0].queue}
            to = visit.link("resume-type", **asked, range=None)
            return Told(reason, kind, "Resume the type", to, is_action=True)
        case Code.DELAYED | Code.WAITS_FOR_RETRY | Code.SNOOZED if may:
            to = visit.link("tasks-reschedule", ids=[task.id], range=None)
            return Told(reason, kind, "Run it now", to, is_action=True)
        case Code.TASKS_AHEAD if may:
            to = visit.link("tasks-reprioritize", ids=[task.id], range=None)
            return Told(reason, kind, "Raise its priority", to, is_action=True)
        case Code.DEAD | Code.FAILED | Code.CANCELED if may:
            to = visit.link("task-requeue", id=task.id, range=None)
            return Told(reason, kind, "Requeue it", to, is_action=True)
        case Code.NO_WORKER | Code.QUEUE_NOT_SERVED | Code.TYPE_NOT_KNOWN | Code.WORKERS_DRAIN:
            return Told(reason, kind, "Show the workers", visit.link("workers"))
        case Code.PROMOTION_LATE | Code.LEASE_EXPIRED:
            return Told(reason, kind, "Look at the database", visit.link("database"))
        case _:
            return Told(reason, kind)


PAGES = (Page("task", show_task, nav="tasks"),)
