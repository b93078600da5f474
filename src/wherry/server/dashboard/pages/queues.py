"""Queues: what each holds, how long it waits, which types are paused; pausing and resuming them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from wherry.domain.flow import Line, StateCount, States
from wherry.domain.options import check_name
from wherry.domain.task import PausedType, QueueDepth
from wherry.errors import InvalidOption
from wherry.server.caller import Right
from wherry.server.dashboard import pictures
from wherry.server.dashboard.asking import Action, Field, Page, Question, Shown, Visit, Went
from wherry.server.dashboard.pages.type_pauses import read_pauses
from wherry.server.dashboard.pauses import TypePauses, most_waiting_first
from wherry.server.dashboard.turning import leaf_of
from wherry.server.dashboard.words import plural

# As the doctor judges them.
LATE_SECONDS, TOO_LATE_SECONDS = 300.0, 3600.0
LINES_FOR: Final = timedelta(hours=1)
LINE_POINTS: Final = 60
# More would keep the queues themselves from a phone.
_PAUSES_SHOWN: Final = 5
_REASON: Final = Field(
    "reason", "Reason", hint="Kept in the audit, and shown to everybody while it lasts."
)


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue as it is listed; `state` says how it fares: bad, warn, paused, busy or idle.

    Of the tasks that are set aside `unknown` are of types that no live worker knows; `pauses` are
    of types that it holds.
    """

    depth: QueueDepth
    state: str
    state_text: str
    total: int
    unknown: int = 0
    pauses: tuple[PausedType, ...] = ()


async def show_queues(visit: Visit) -> Shown:
    """List the queues, those in trouble first."""
    depths, lines, pauses = await asyncio.gather(
        visit.read(visit.service.list_queues),
        visit.read(visit.service.read_lines, length=LINES_FOR, points=LINE_POINTS),
        read_pauses(visit),
    )
    wanted = visit.query.get("q", "").strip().lower()
    settled = pictures.settled(lines)
    rows = rows_of([depth for depth in depths if wanted in depth.queue.lower()], pauses)
    values = {
        "lines": settled,
        "unit": pictures.unit_of(lines=settled),
        "leaf": leaf_of(visit, rows),
        "paused": [
            PauseRow(pause, pauses.waiting(pause))
            for pause in most_waiting_first(pauses)
            if wanted in pause.type.lower() or wanted in (pause.queue or "").lower()
        ],
        "paused_shown": _PAUSES_SHOWN,
        "known": len(depths),
        "wanted": wanted,
        "most": max((row.total for row in rows), default=0),
    }
    return Shown("queues.html", "Queues", values)


@dataclass(frozen=True, slots=True)
class PauseRow:
    """A type that is paused, and how many of its tasks wait for that."""

    pause: PausedType
    waiting: int


async def show_queue(visit: Visit) -> Shown:
    """Show one queue: what it holds, its flow, its types, and who serves it."""
    name = check_name(visit.query.get("name", ""), option="name")
    visit.caller.require(Right.READ, name)
    service = visit.service
    depths, workers, states, flow, types, pauses = await asyncio.gather(
        visit.read(service.list_queues),
        visit.read(service.list_workers),
        visit.read(service.count_states, queue=name),
        visit.read(
            service.read_flow,
            length=visit.range.length,
            points=pictures.points_of(visit.range),
            queue=name,
        ),
        visit.read(
            service.read_lines, length=LINES_FOR, points=LINE_POINTS, by_type=True, queue=name
        ),
        read_pauses(visit, queue=name),
    )
    depth = next((each for each in depths if each.queue == name), None)
    serving = [each for each in workers if each.queues is None or name in each.queues]
    marks = pictures.deploys(serving, since=flow.points[0].at)
    settled = pictures.settled(types)
    unit = pictures.unit_of(flow, lines=settled)
    values = {
        "name": name,
        "row": row_of(depth or QueueDepth(name, 0, 0, 0, 0, None), pauses),
        "states": states,
        "types": _types(name, states, settled, pauses),
        "unit": unit,
        "workers": serving,
        "charts": (
            pictures.throughput(flow, marks, unit=unit),
            pictures.waiting(flow, marks),
            pictures.running(flow, marks),
            pictures.retries(flow, marks),
        ),
        "length": visit.range.length,
    }
    return Shown("queue.html", name, values)


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A type of a queue: how many there are, its last hour, and what pauses it there."""

    name: str
    count: StateCount
    line: Line | None
    pauses: tuple[PausedType, ...] = ()


def _types(
    queue: str, states: States, lines: Mapping[str, Line], pauses: TypePauses
) -> list[TypeRow]:
    """Return the types of a queue, the paused ones first; one may be paused before it comes."""
    counts = {count.type: count for count in states.counts}
    for pause in pauses.in_queue(queue):
        counts.setdefault(pause.type, StateCount(queue, pause.type))
    rows = [
        TypeRow(type, count, lines.get(type), pauses.of(queue, type))
        for type, count in counts.items()
    ]
    return sorted(rows, key=lambda row: (not row.pauses, -row.count.ready, row.name))


def rows_of(depths: Sequence[QueueDepth], pauses: TypePauses) -> list[QueueRow]:
    """Judge queues, and put those in trouble first."""
    order = ("bad", "warn", "paused", "busy", "idle")
    rows = [row_of(depth, pauses) for depth in depths]
    return sorted(rows, key=lambda row: (order.index(row.state), row.depth.queue))


def row_of(depth: QueueDepth, pauses: TypePauses) -> QueueRow:
    """Judge a queue by what it holds."""
    total = depth.ready + depth.delayed + depth.parked + depth.leased
    late = depth.oldest_due_seconds or 0.0
    unknown, here = pauses.unknown(depth), pauses.in_queue(depth.queue)
    if depth.paused_at is not None:
        state, text = "paused", "Paused"
    elif late >= TOO_LATE_SECONDS:
        state, text = "bad", "Far behind"
    elif late >= LATE_SECONDS:
        state, text = "warn", "Behind"
    elif depth.leased or depth.ready:
        state, text = "busy", "Working" if depth.leased else "Waiting"
    elif unknown:
        state, text = "warn", "Unknown types"
    elif depth.parked:
        state, text = "paused", "Types paused"
    else:
        state, text = "idle", "Quiet"
    return QueueRow(depth, state, text, total, unknown, here)


async def ask_pause(visit: Visit) -> Question:
    """Ask before a queue is paused."""
    depth = await asked_queue(visit)
    return Question(
        title=f"Pause {depth.queue}?",
        text="Nothing more is leased from it. What runs goes on, and what is enqueued waits.",
        button="Pause queue",
        back=visit.link("queue", name=depth.queue),
        facts=(
            ("Ready", plural(depth.ready, "task")),
            ("Running", plural(depth.leased, "task")),
        ),
        fields=(_REASON,),
        kept=(("queue", depth.queue),),
    )


async def pause(visit: Visit) -> Went:
    """Pause a queue."""
    queue, reason = visit.form.get("queue", ""), visit.form.get("reason") or None
    changed = await visit.service.pause_queue(visit.caller, queue=queue, reason=reason)
    said = f"Queue {queue} is paused." if changed else f"Queue {queue} was paused already."
    return Went(visit.link("queue", name=queue), said)


async def ask_resume(visit: Visit) -> Question:
    """Ask before a queue is resumed."""
    depth = await asked_queue(visit)
    return Question(
        title=f"Resume {depth.queue}?",
        text="Workers lease from it again, the oldest of the highest priority first.",
        button="Resume queue",
        back=visit.link("queue", name=depth.queue),
        facts=(
            ("Ready", plural(depth.ready, "task")),
            ("Paused by", depth.paused_by or "somebody who did not say"),
            ("Because", depth.pause_reason or "no reason given"),
        ),
        fields=(Field("reason", "Reason", hint="Kept in the audit."),),
        kept=(("queue", depth.queue),),
    )


async def resume(visit: Visit) -> Went:
    """Resume a queue."""
    queue, reason = visit.form.get("queue", ""), visit.form.get("reason") or None
    resumed = await visit.service.resume_queue(visit.caller, queue=queue, reason=reason)
    said = f"Queue {queue} is resumed." if resumed else f"Queue {queue} was not paused."
    return Went(visit.link("queue", name=queue), said)


async def asked_queue(visit: Visit) -> QueueDepth:
    """Return the queue that the address names, also one that holds nothing."""
    name = visit.query.get("queue", "")
    if not name:
        raise InvalidOption("queue", name, "name the queue in the address: ?queue=NAME")
    visit.caller.require(Right.ADMIN, name)
    depths = await visit.read(visit.service.list_queues)
    return next(
        (depth for depth in depths if depth.queue == name), QueueDepth(name, 0, 0, 0, 0, None)
    )


PAGES = (
    Page("queues", show_queues, nav="queues"),
    Page("queue", show_queue, nav="queues"),
)
ACTIONS = (
    Action("pause", ask_pause, pause, nav="queues"),
    Action("resume", ask_resume, resume, nav="queues"),
)
