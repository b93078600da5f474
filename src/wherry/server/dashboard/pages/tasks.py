"""Tasks: searched, page by page, and what can be done to all that are found."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from wherry.domain.filter import Counted
from wherry.domain.state import FINAL, State
from wherry.domain.task import Page as TaskPage
from wherry.domain.task import Task
from wherry.errors import TimedOut
from wherry.server.caller import Right
from wherry.server.dashboard.asking import Page, Shown, Visit, number_of
from wherry.server.dashboard.bulks import BULKS
from wherry.server.dashboard.json_text import brief_json
from wherry.server.dashboard.task_words import STATES
from wherry.server.dashboard.wanted import MOMENTS, TEXTS, Wanted
from wherry.server.dashboard.words import number

ROWS: Final = 50
MOST_COUNTED: Final = 10_000
# Of payloads and results in one page; they are shown in part.
_PAGE_LIMIT_BYTES: Final = 2 * 1024 * 1024
# Nobody waits for a number longer than for what is counted.
_COUNT_WITHIN: Final = timedelta(seconds=1)
_BRIEF: Final = 160
# What a box suggests.
_MOST_KNOWN: Final = 500


@dataclass(frozen=True, slots=True)
class Row:
    """A task as it is listed."""

    task: Task
    kind: str
    word: str
    note: str
    is_error: bool


async def show_tasks(visit: Visit) -> Shown:
    """List the tasks that somebody looks for, newest first."""
    wanted = Wanted.of(visit)
    needs_queue = not visit.may(Right.READ) and "queue" not in wanted.said
    found: TaskPage | None = None
    counted: Counted | None = None
    is_too_slow = False
    if not wanted.trouble and not needs_queue:
        found, counted, is_too_slow = await _look(visit, wanted)
    queues, types = await _known(visit)
    values: dict[str, Any] = {
        "wanted": wanted,
        "chips": wanted.chips(visit),
        "needs_queue": needs_queue,
        "is_too_slow": is_too_slow,
        "patience": visit.service.settings.search_timeout,
        "rows": [_row(visit, task) for task in found.tasks] if found else [],
        "found": found,
        "count": _count_text(counted, found),
        "queues": queues,
        "types": types,
        "states": [(str(state), *STATES[state]) for state in State],
        "texts": TEXTS,
        "moments": MOMENTS,
        "bulks": [bulk for bulk in BULKS if bulk.fits(wanted.states)],
        "may_change": visit.may(Right.ADMIN, wanted.first("queue") or None),
        "is_narrowed": wanted.is_narrowed,
        "address": wanted.address,
    }
    return Shown("tasks.html", "Tasks", values, 400 if wanted.trouble else 200)


async def _look(visit: Visit, wanted: Wanted) -> tuple[TaskPage | None, Counted | None, bool]:
    """Return a page, how many there are in all, and whether the search took too long."""
    after, before = (number_of(visit.query.get(name, "")) or None for name in ("after", "before"))
    page, counted = await asyncio.gather(
        visit.read(
            visit.service.list_tasks,
            limit=ROWS,
            after=after,
            before=None if after else before,
            limit_bytes=_PAGE_LIMIT_BYTES,
            **wanted.filter,
        ),
        visit.read(
            visit.service.count_tasks, most=MOST_COUNTED, timeout=_COUNT_WITHIN, **wanted.filter
        ),
        return_exceptions=True,
    )
    if isinstance(page, BaseException) and not isinstance(page, TimedOut):
        raise page
    if isinstance(counted, BaseException) and not isinstance(counted, TimedOut):
        raise counted
    return (
        None if isinstance(page, TimedOut) else page,
        None if isinstance(counted, TimedOut) else counted,
        isinstance(page, TimedOut),
    )


async def _known(visit: Visit) -> tuple[list[str], list[str]]:
    """Return the queues and types that a box suggests."""
    states = await visit.read(visit.service.count_states)
    queues = sorted({count.queue for count in states.counts if count.queue})
    types = sorted({count.type for count in states.counts if count.type})
    return queues[:_MOST_KNOWN], types[:_MOST_KNOWN]


def _row(visit: Visit, task: Task) -> Row:
    kind, word = STATES[task.state]
    if task.error and task.state is not State.SUCCEEDED:
        note, is_error = task.error.strip().partition("\n")[0], task.state in FINAL
    else:
        brief = brief_json(task.payload_text, of="payload", rules=visit.rules, most=_BRIEF)
        note, is_error = " ".join(brief.split()), False
    if len(note) > _BRIEF:
        note = f"{note[: _BRIEF - 1]}…"
    return Row(task, kind, word, note, is_error)


def _count_text(counted: Counted | None, found: TaskPage | None) -> str:
    if counted is not None:
        return f"{number(counted.tasks)}+" if counted.capped else number(counted.tasks)
    if found is None:
        return ""
    return f"{number(len(found.tasks))} or more"


PAGES = (Page("tasks", show_tasks, nav="tasks"),)
