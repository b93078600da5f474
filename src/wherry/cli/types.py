"""`wherry types`: pause and resume types of tasks."""

from __future__ import annotations

from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Column, Output
from wherry.cli.text import moment, plain
from wherry.domain.state import State
from wherry.domain.task import PausedType
from wherry.domain.type_pauses import pauses_of, places
from wherry.errors import PermissionDenied, TimedOut

if TYPE_CHECKING:
    from wherry.app.app import App

# Seconds; it is only to help, and what was asked for is done by then.
_LONGEST_LOOK = 2.0

_COLUMNS = (Column("type"), Column("queue"), Column("paused"), Column("by"), Column("reason"))


@click.group()
def types() -> None:
    """Pause and resume types of tasks."""


@types.command(name="list")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def list_types(asked: Asked, /) -> None:
    """List the types that are paused."""
    with opened(asked) as app:
        found = app.list_paused_types()
    out = Output(asked)
    if out.as_json:
        out.json({"types": [asdict(each) for each in found]})
    elif not found:
        out.note("no type is paused")
    else:
        rows = [
            (
                each.type,
                each.queue or "*",
                moment(each.paused_at),
                each.paused_by or "",
                each.reason or "",
            )
            for each in found
        ]
        out.table(_COLUMNS, rows)


@types.command()
@click.argument("name", metavar="NAME")
@click.option("--queue", metavar="NAME", help="In this queue only (default: in all of them).")
@click.option("--reason", metavar="TEXT", help="Why, as the listing and the audit will say.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def pause(asked: Asked, /, name: str, queue: str | None, reason: str | None) -> None:
    """Lease nothing more of a type until it is resumed; other types go on."""
    with opened(asked) as app:
        changed = app.pause_type(name, queue=queue, reason=reason)
        unknown = not asked.as_json and changed and _is_unknown(app, name, queue)
    out = Output(asked)
    out.changed({"type": name, "queue": queue}, changed, done="paused", already="was paused before")
    if unknown:
        out.note("no task of it is here now, and no live worker knows it: is that its name?")


@types.command()
@click.argument("name", metavar="NAME")
@click.option("--queue", metavar="NAME", help="Where it was paused (default: in all of them).")
@click.option("--reason", metavar="TEXT", help="Why, as the audit will say.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def resume(asked: Asked, /, name: str, queue: str | None, reason: str | None) -> None:
    """Lease a paused type again."""
    with opened(asked) as app:
        resumed = app.resume_type(name, queue=queue, reason=reason)
    still = pauses_of(name, resumed.still_paused)
    out = Output(asked)
    what: dict[str, Any] = {"type": name, "queue": queue}
    if out.as_json and still:
        what["still_paused"] = [pause.queue for pause in still]
    if out.as_json and resumed.queue_pause:
        what["queue_paused"] = True
    out.changed(what, resumed.changed, done="resumed", already="was not paused there")
    if out.as_json:
        return
    if still:
        out.line(plain(f"it is still paused {places(still)}"))
        note_way(out, still[0])
    if queue is not None and resumed.queue_pause:
        out.line(plain(f"the queue {queue} is itself paused"))
        ending = f"{'-- ' if queue.startswith('-') else ''}{quote(queue)}"
        out.note(f"to go on: {plain(f'wherry queues resume {ending}')}")


def note_way(out: Output, pause: PausedType) -> None:
    """Say how a pause of a type is lifted."""
    of = "" if pause.queue is None else f" --queue={quote(pause.queue)}"
    ending = f"{'-- ' if pause.type.startswith('-') else ''}{quote(pause.type)}"
    out.note(f"to go on: {plain(f'wherry types resume{of} {ending}')}")


def _is_unknown(app: App, type: str, queue: str | None) -> bool:
    """Whether nothing that is seen here is of that type: maybe its name is another."""
    try:
        if any(not seen.types or type in seen.types for seen in app.list_workers() if seen.alive):
            return False
        live = [State.QUEUED, State.LEASED]
        return not app.count_tasks(
            most=1, timeout=_LONGEST_LOOK, type=type, queue=queue, state=live
        ).tasks
    except (PermissionDenied, TimedOut):
        return False
