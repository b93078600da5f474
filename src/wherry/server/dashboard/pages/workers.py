"""Workers: who is there, what they run, and quieting and stopping them."""

from __future__ import annotations

from typing import Final

from wherry.domain.worker import Directive, WorkerSeen
from wherry.errors import InvalidOption
from wherry.server.caller import Right
from wherry.server.dashboard.asking import Action, Field, Page, Question, Shown, Visit, Went
from wherry.server.dashboard.words import plural

_REASON: Final = Field("reason", "Reason", hint="Kept in the audit.")


async def show_workers(visit: Visit) -> Shown:
    """List the workers, those that fell silent first."""
    found = await visit.read(visit.service.list_workers)
    found = sorted(found, key=lambda worker: (worker.alive, worker.name, worker.started_at))
    return Shown("workers.html", "Workers", {"workers": found})


async def ask_quiet(visit: Visit) -> Question:
    """Ask before a worker is told to lease no more."""
    return await _question(
        visit,
        title="Quiet {}?",
        text="It leases nothing more; what it runs goes on to its end. It hears of it at its next"
        " beat, within half a minute.",
        button="Quiet worker",
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


async def ask_go_on(visit: Visit) -> Question:
    """Ask before a quiet worker goes on."""
    return await _question(
        visit, title="Let {} go on?", text="It leases tasks again.", button="Go on"
    )


async def quiet(visit: Visit) -> Went:
    """Tell a worker to lease no more."""
    return await _direct(visit, Directive.DRAIN, "{} told to lease no more.")


async def stop(visit: Visit) -> Went:
    """Tell a worker to stop."""
    return await _direct(visit, Directive.STOP, "{} told to stop.")


async def go_on(visit: Visit) -> Went:
    """Tell a quiet worker to go on."""
    return await _direct(visit, Directive.NONE, "{} told to go on.")


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
    Action("quiet", ask_quiet, quiet, nav="workers"),
    Action("stop", ask_stop, stop, nav="workers"),
    Action("go-on", ask_go_on, go_on, nav="workers"),
)
