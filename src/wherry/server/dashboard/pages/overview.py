"""The overview: what is wrong first, then what flows through, how long it takes, and who works."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

from wherry.domain.flow import Flow, Histogram, States
from wherry.server.caller import Right
from wherry.server.dashboard import pictures
from wherry.server.dashboard.asking import Page, Shown, Visit
from wherry.server.dashboard.pages.queues import LINE_POINTS, LINES_FOR, rows_of
from wherry.server.dashboard.pages.type_pauses import read_pauses
from wherry.server.dashboard.problems import troubles

_MOST_QUEUES: Final = 8
_MOST_TROUBLES: Final = 12
# Over so many minutes "now" is taken.
_NOW_MINUTES: Final = 5
PAGES_KNOWN: Final = frozenset(
    {"", "queues", "queue", "workers", "dead", "database", "tasks", "schedules"}
)


async def show_overview(visit: Visit) -> Shown:
    """Show everything at a glance."""
    service = visit.service
    (queues, workers, schedules, pauses), states, lines, flow, recent = await asyncio.gather(
        asyncio.gather(
            visit.read(service.list_queues),
            visit.read(service.list_workers),
            visit.read(service.list_schedules),
            read_pauses(visit),
        ),
        visit.read(service.count_states),
        visit.read(service.read_lines, length=LINES_FOR, points=LINE_POINTS),
        visit.read(
            service.read_flow, length=visit.range.length, points=pictures.points_of(visit.range)
        ),
        visit.read(service.read_flow, length=timedelta(minutes=15), points=15),
    )
    # The doctor looks at everything, so that he talks to those only who may see everything.
    round = visit.rounds.last() if visit.may(Right.READ) else None
    now = datetime.now(UTC)
    found = troubles(
        queues=queues,
        workers=workers,
        schedules=schedules,
        pauses=pauses,
        lines=lines,
        round=round,
        now=now,
        pages=PAGES_KNOWN,
    )
    marks = pictures.deploys(workers, since=flow.points[0].at)
    settled = pictures.settled(lines)
    unit = pictures.unit_of(flow, recent, lines=settled)
    rows = rows_of(queues, pauses)
    values = {
        "troubles": found[:_MOST_TROUBLES],
        "more_troubles": sum(trouble.things for trouble in found[_MOST_TROUBLES:]),
        **{
            kind: sum(trouble.things for trouble in found if trouble.kind == kind)
            for kind in ("bad", "warn")
        },
        "round": round,
        "may_ask_doctor": visit.may(Right.READ),
        "counts": _counts(states, queues_ready=sum(queue.ready for queue in queues)),
        "unknown": sum(row.unknown for row in rows),
        "numbers": _numbers(recent),
        "queues": rows[:_MOST_QUEUES],
        "queues_known": len(queues),
        "most": max((row.total for row in rows), default=0),
        "lines": settled,
        "unit": unit,
        "workers": workers,
        "charts": (
            pictures.throughput(flow, marks, unit=unit),
            pictures.waiting(flow, marks),
            pictures.running(flow, marks),
            pictures.retries(flow, marks),
            pictures.busy(flow, marks),
        ),
        "length": visit.range.length,
        "flow": flow,
    }
    return Shown("overview.html", "Overview", values)


def _counts(states: States, *, queues_ready: int) -> dict[str, int]:
    """Return how many tasks are in which state."""
    counts = states.counts
    return {
        "ready": queues_ready,
        "leased": sum(count.leased for count in counts),
        "delayed": sum(count.delayed for count in counts),
        "parked": sum(count.parked for count in counts),
        "succeeded": sum(count.succeeded for count in counts),
        "dead": sum(count.dead for count in counts),
        "failed": sum(count.failed for count in counts),
        "canceled": sum(count.canceled for count in counts),
    }


def _numbers(recent: Flow) -> dict[str, float | None]:
    """Return the rates and times of the last minutes that are over."""
    points = pictures.over(recent)[-_NOW_MINUTES:]
    seconds = len(points) * recent.width_seconds

    def total(*kinds: str) -> int:
        return sum(point.counts[kind] for point in points for kind in kinds)

    wait = sum((point.wait for point in points), Histogram())
    run = sum((point.run for point in points), Histogram())
    ended, bad = total("succeeded", "failed", "dead"), total("failed", "dead")
    return {
        "came": total("enqueued", "requeued") / seconds,
        "ended": ended / seconds,
        "bad": bad / ended if ended else None,
        "wait": wait.percentile(0.95),
        "run": run.percentile(0.95),
        "busy": run.seconds / seconds,
    }


PAGES = (Page("", show_overview, nav=""),)
