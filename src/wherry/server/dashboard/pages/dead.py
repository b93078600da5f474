"""Dead tasks in groups of one cause: how many, since when, and what to do with all of them."""

from __future__ import annotations

from typing import Any, Final

from wherry.domain.filter import DeadGroups
from wherry.errors import TimedOut
from wherry.server.caller import Right
from wherry.server.dashboard.asking import Page, Shown, Visit

_MOST_KNOWN: Final = 500
_STATES: Final = ["dead", "failed"]


async def show_dead(visit: Visit) -> Shown:
    """Group the dead and failed tasks by their errors, the largest group first."""
    queue = visit.query.get("queue", "")
    needs_queue = not queue and not visit.may(Right.READ)
    found: DeadGroups | None = None
    is_too_slow = False
    if not needs_queue:
        try:
            found = await visit.read(visit.service.group_dead_tasks, queue=queue or None)
        except TimedOut:
            is_too_slow = True
    groups = found.groups if found else ()
    states = await visit.read(visit.service.count_states)
    values: dict[str, Any] = {
        "queue": queue,
        "queues": sorted({count.queue for count in states.counts if count.queue})[:_MOST_KNOWN],
        "needs_queue": needs_queue,
        "is_too_slow": is_too_slow,
        "patience": visit.service.settings.search_timeout,
        "groups": groups,
        "since": found.since if found else None,
        "capped": found is not None and found.capped,
        "total": sum(group.tasks for group in groups),
        "most": max((group.tasks for group in groups), default=0),
        "states": _STATES,
        "may_change": visit.may(Right.ADMIN, queue or None),
    }
    return Shown("dead.html", "Dead tasks", values)


PAGES = (Page("dead", show_dead, nav="dead"),)
