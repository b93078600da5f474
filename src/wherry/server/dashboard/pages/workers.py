"""Workers: who is there, what they run, and draining and stopping them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wherry.domain.worker import Directive, HeldTask, WorkerSeen
from wherry.errors import InvalidOption
from wherry.server.caller import Right
from wherry.server.dashboard.asking import Action, Field, Page, Question, Shown, Visit, Went
from wherry.server.dashboard.turning import leaf_of
from wherry.server.dashboard.words import plural

_MOST_SHOWN: Final = 5
_QUEUES_SHOWN: Final = 20
_REASON: Final = Field("reason", "Reason", hint="Kept in the audit.")


@dataclass(frozen=True, slots=True)
class WorkerCard:
    """A worker and what it runs; `shown` are the tasks that have run for longest.

    Of several processes with one name it is not known which runs what: each shows all of it.
    """

    worker: WorkerSeen
    kind: str
    text: str
    running: int
    shown: tuple[HeldTask, ...]


async def show_workers(visit: Visit) -> Shown:
    """List the workers, those that fell silent first."""
    found, held = await asyncio.gather(
        visit.read(visit.service.list_workers), visit.read(visit.service.list_held)
    )
    wanted = visit.query.get("q", "").strip().lower()
    tasks: defaultdict[str, list[HeldTask]] = defaultdict(list)
    for task in held:
        tasks[task.worker].append(task)
    cards = [
        card_of(worker, tasks[worker.name])
        for worker in found
        if wanted in f"{worker.name}\n{worker.host}".lower()
    ]
    cards.sort(key=lambda card: (card.worker.alive, card.worker.name, card.worker.started_at))
    alive = [worker for worker in found if worker.alive]
    values = {
        "leaf": leaf_of(visit, cards),
        "queues_shown": _QUEUES_SHOWN,
        "wanted": wanted,
        "known": len(found),
        "alive": len(alive),
        "slots": sum(worker.slots or 0 for worker in alive),
        "running": len(held),
        "versions": len({worker.version for worker in alive if worker.version}),
    }
    return Shown("workers.html", "Workers", values)


def card_of(worker: WorkerSeen, tasks: Sequence[HeldTask]) -> WorkerCard:
    """Judge a worker by its beat and by what it was told."""
    if not worker.alive:
        kind, text = "bad", "Gone"
    elif worker.directive is Directive.DRAIN:
        kind, text = "paused", "Draining"
    elif worker.directive is Directive.STOP:
        kind, text = "warn", "Stopping"
    else:
        kind, text = "good", "Alive"
    return WorkerCard(worker, kind, text, len(tasks), tuple(tasks[:_MOST_SHOWN]))


async def ask_drain(visit: Visit) -> Question:
    """Ask before a worker is told to lease no more."""
    return await _question(
        visit,
        title="Drain {}?",
        text="It leases nothing more; what it runs goes on to its end. It hears of it at its next"
        " beat, within half a minute.",
        button="Drain worker",
    )


async def ask_stop(visit: Visit) -> Question:
    """Ask before a worker is stopped."""
    return await _question(
        visit,
        title="Stop {}?",
        text="It leases nothing more, finishes what it runs within its time to shut down, gives"
        " back the rest, and ends. Nothing starts it again from here.",
        button="Stop worker",
        danger=True,
    )


async def ask_resume(visit: Visit) -> Question:
    """Ask before a worker that drains leases again."""
    return await _question(
        visit, title="Resume {}?", text="It leases tasks again.", button="Resume worker"
    )


async def drain(visit: Visit) -> Went:
    """Tell a worker to lease no more."""
    return await _direct(visit, Directive.DRAIN, "{} told to lease no more.")


async def stop(visit: Visit) -> Went:
    """Tell a worker to stop."""
    return await _direct(visit, Directive.STOP, "{} told to stop.")


async def resume(visit: Visit) -> Went:
    """Tell a worker that drains to lease again."""
    return await _direct(visit, Directive.NONE, "{} told to lease again.")


async def _question(
    visit: Visit, *, title: str, text: str, button: str, danger: bool = False
) -> Question:
    visit.caller.require(Right.ADMIN, None)
    name = visit.query.get("worker", "")
    named = await _named(visit, name)
    alive = [worker for worker in named if worker.alive]
    facts = [("Host", ", ".join(sorted({worker.host for worker in named})) or "–")]
    if len(alive) != 1:
        facts.append(("Processes of this name", str(len(alive))))
    return Question(
        title=title.format(name),
        text=text,
        button=button,
        back=visit.link("workers"),
        danger=danger,
        facts=tuple(facts),
        fields=(_REASON,),
        kept=(("worker", name),),
    )


async def _named(visit: Visit, name: str) -> list[WorkerSeen]:
    if not name:
        raise InvalidOption("worker", name, "name the worker in the address: ?worker=NAME")
    found = await visit.read(visit.service.list_workers)
    return [worker for worker in found if worker.name == name]


async def _direct(visit: Visit, directive: Directive, said: str) -> Went:
    name, reason = visit.form.get("worker", ""), visit.form.get("reason") or None
    told = await visit.service.direct_workers(
        visit.caller, names=[name], directive=directive, reason=reason
    )
    if not told:
        return Went(visit.link("workers"), f"No live worker is called {name}.", is_good=False)
    more = "" if told == 1 else f" ({plural(told, 'process', 'processes')})"
    return Went(visit.link("workers"), said.format(f"Worker {name}{more} was"))


PAGES = (Page("workers", show_workers, nav="workers"),)
ACTIONS = (
    Action("drain", ask_drain, drain, nav="workers"),
    Action("stop", ask_stop, stop, nav="workers"),
    Action("resume-worker", ask_resume, resume, nav="workers"),
)
