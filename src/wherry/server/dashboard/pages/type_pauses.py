"""Pausing and resuming types, in one queue or in all: for who may change that queue, or all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from wherry.domain.options import check_name
from wherry.domain.state import State
from wherry.domain.task import PausedType
from wherry.domain.type_pauses import pauses_of, places, where
from wherry.errors import InvalidOption, TimedOut
from wherry.server.caller import Right
from wherry.server.dashboard.asking import Action, Field, Question, Visit, Went
from wherry.server.dashboard.pauses import TypePauses
from wherry.server.dashboard.words import ago, plural

_ALL: Final = "in all queues"
# Seconds; it is only to help, and what was asked for is done by then.
_LONGEST_LOOK: Final = 2.0
_REASON: Final = Field(
    "reason", "Reason", hint="Kept in the audit, and shown to everybody while it lasts."
)


async def read_pauses(visit: Visit, *, queue: str | None = None) -> TypePauses:
    """Return the paused types that the visitor may know of, with the tasks of a queue or of all."""
    pauses = await visit.read(visit.service.list_paused_types)
    if not pauses:
        return TypePauses()
    states = await visit.read(visit.service.count_states, queue=queue)
    return TypePauses(tuple(pauses), states.counts)


async def ask_pause_type(visit: Visit) -> Question:
    """Ask before a type is paused, and where; of what the address does not name it asks, too."""
    type, queue = visit.query.get("type", ""), visit.query.get("queue") or None
    if queue is not None:
        visit.caller.require(Right.ADMIN, check_name(queue, option="queue"))
    fields: list[Field] = []
    if not type:
        fields.append(Field("type", "Type", hint="As its tasks are enqueued: the handler's name."))
    fields.append(_queue_field(visit, queue))
    return Question(
        title=f"Pause {type}?" if type else "Pause a type",
        text="Nothing more of it is leased. What runs goes on, what is enqueued waits,"
        " and other types are not held up.",
        button="Pause type",
        back=_back(visit, queue),
        facts=(("Type", type), *await _waiting(visit, type, queue)) if type else (),
        fields=(*fields, _REASON),
        kept=(("type", type),) if type else (),
    )


def _queue_field(visit: Visit, queue: str | None) -> Field:
    everywhere = ("", "all queues")
    if queue is None:
        hint = "Where nothing stands: in all of them." if visit.may(Right.ADMIN) else ""
        return Field("queue", "In the queue", hint=hint)
    choices = ((queue, queue), everywhere) if visit.may(Right.ADMIN) else ((queue, queue),)
    return Field("queue", "In", queue, choices=choices)


async def _waiting(visit: Visit, type: str, queue: str | None) -> tuple[tuple[str, str], ...]:
    states = await visit.read(visit.service.count_states, queue=queue)
    counts = [count for count in states.counts if count.type == type]
    ready = sum(count.ready for count in counts)
    return (
        ("Ready", plural(ready, "task")),
        ("Running", plural(sum(count.leased for count in counts), "task")),
    )


async def pause_type(visit: Visit) -> Went:
    """Pause a type."""
    type, queue = _named(visit)
    reason = visit.form.get("reason") or None
    changed = await visit.service.pause_type(visit.caller, type=type, queue=queue, reason=reason)
    place = _ALL if queue is None else f"in {queue}"
    said = f"The type {type} is paused {place}"
    if not changed:
        return Went(_back(visit, queue), f"{said} already.")
    if await _is_unknown(visit, type, queue):
        said += ". No task of it is here now, and no live worker knows it: is that its name"
        return Went(_back(visit, queue), f"{said}?")
    return Went(_back(visit, queue), f"{said}.")


async def _is_unknown(visit: Visit, type: str, queue: str | None) -> bool:
    """Whether nothing that the visitor may see is of that type: maybe its name is another."""
    if not visit.may(Right.READ, queue):
        return False
    service, caller = visit.service, visit.caller
    alive = [seen for seen in await service.list_workers(caller) if seen.alive]
    if any(not seen.types or type in seen.types for seen in alive):
        return False
    live = [State.QUEUED, State.LEASED]
    try:
        found = await service.count_tasks(
            caller, most=1, timeout=_LONGEST_LOOK, type=type, queue=queue, state=live
        )
    except TimedOut:
        return False
    return not found.tasks


async def ask_resume_type(visit: Visit) -> Question:
    """Ask before a type is resumed that is paused where the address says."""
    type, queue = visit.query.get("type", ""), visit.query.get("queue") or None
    check_name(type, option="type")
    visit.caller.require(Right.ADMIN, None if queue is None else check_name(queue, option="queue"))
    pauses = await read_pauses(visit)
    pause = next((p for p in pauses.pauses if (p.type, p.queue) == (type, queue)), None)
    return Question(
        title=f"Resume {type}?",
        text="Workers lease it again; what was set aside is ready within seconds.",
        button="Resume type",
        back=_back(visit, queue),
        facts=_facts(pauses, pause) if pause else (("Paused", "no longer"),),
        fields=(Field("reason", "Reason", hint="Kept in the audit."),),
        kept=(("type", type), ("queue", queue or "")),
    )


def _facts(pauses: TypePauses, pause: PausedType) -> tuple[tuple[str, str], ...]:
    return (
        ("Paused", f"{where(pause)}, {ago(pause.paused_at, datetime.now(UTC))}"),
        ("Waiting", plural(pauses.waiting(pause), "task")),
        ("Paused by", pause.paused_by or "somebody who did not say"),
        ("Because", pause.reason or "no reason given"),
    )


async def resume_type(visit: Visit) -> Went:
    """Resume a type where it was paused."""
    type, queue = _named(visit)
    reason = visit.form.get("reason") or None
    resumed = await visit.service.resume_type(visit.caller, type=type, queue=queue, reason=reason)
    place = _ALL if queue is None else f"in {queue}"
    said = f"is resumed {place}." if resumed else f"was not paused {place}."
    if pauses := pauses_of(type, resumed.still_paused):
        said += f" It is still paused {places(pauses)}."
    if resumed.queue_pause:
        said += f" The queue {queue} is itself paused."
    return Went(_back(visit, queue), f"The type {type} {said}")


def _named(visit: Visit) -> tuple[str, str | None]:
    """Return what the form names: a type, and a queue or (None) all of them."""
    type = visit.form.get("type", "")
    if not type:
        raise InvalidOption("type", type, "name the type")
    return type, visit.form.get("queue") or None


def _back(visit: Visit, queue: str | None) -> str:
    return visit.link("queues") if queue is None else visit.link("queue", name=queue)


ACTIONS = (
    Action("pause-type", ask_pause_type, pause_type, nav="queues"),
    Action("resume-type", ask_resume_type, resume_type, nav="queues"),
)
