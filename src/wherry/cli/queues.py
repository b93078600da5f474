"""`wherry queues`: look at queues, pause and resume them, and set their limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import click

from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Output
from wherry.cli.shown import limit_fields, show_queues
from wherry.cli.text import plain
from wherry.cli.types import note_way
from wherry.cli.values import starts

_MOST_NAMED: Final = 3


@click.group()
def queues() -> None:
    """Look at queues, pause and resume them, set their limits."""


@queues.command(name="list")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def list_queues(asked: Asked, /) -> None:
    """Count what each queue holds, and how late its oldest due task is."""
    with opened(asked) as app:
        found = app.list_queues()
    show_queues(Output(asked), found)


@queues.command()
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", help="Why, as the listing and the audit will say.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def pause(asked: Asked, /, name: str, reason: str | None) -> None:
    """Lease nothing more from a queue until it is resumed; all else goes on."""
    with opened(asked) as app:
        changed = app.pause_queue(name, reason=reason)
    Output(asked).changed({"queue": name}, changed, done="paused", already="was paused before")


@queues.command()
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", help="Why, as the audit will say.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def resume(asked: Asked, /, name: str, reason: str | None) -> None:
    """Lease from a paused queue again."""
    with opened(asked) as app:
        resumed = app.resume_queue(name, reason=reason)
    still = resumed.still_paused
    out = Output(asked)
    what: dict[str, Any] = {"queue": name}
    types = sorted({pause.type for pause in still})
    if out.as_json and still:
        what["still_paused"] = types
    out.changed(what, resumed.changed, done="resumed", already="was not paused")
    if still and not out.as_json:
        more = f" and {len(types) - _MOST_NAMED:,} more" if len(types) > _MOST_NAMED else ""
        out.line(plain(f"still paused in it: {', '.join(types[:_MOST_NAMED])}{more}"))
        note_way(out, still[0])


@queues.command()
@click.argument("name", metavar="NAME")
@click.option("--max-running", metavar="N", type=int, help="At most so many leased at once.")
@click.option("--rate", metavar="RATE", type=starts, help="At most so many starts, as in 100/60s.")
@click.option(
    "--burst", metavar="N", type=int, help="So many starts in one go (default: one second's)."
)
@click.option("--none", "lift", is_flag=True, help="Lift its limits.")
@click.option("--reason", metavar="TEXT", help="Why, as the audit will say.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def limits(
    asked: Asked,
    /,
    name: str,
    max_running: int | None,
    rate: tuple[int, timedelta] | None,
    burst: int | None,
    lift: bool,
    reason: str | None,
) -> None:
    """Set the limits of a queue: these, and no others; with no option, show them."""
    some = max_running is not None or rate is not None
    if lift and (some or burst is not None):
        raise click.UsageError("--none lifts all limits: name no other one with it")
    starts_in_time, per = rate or (None, None)
    with opened(asked) as app:
        changed = (some or burst is not None or lift) and app.set_queue_limits(
            name, max_running=max_running, rate=starts_in_time, per=per, burst=burst, reason=reason
        )
        now = next((each.limits for each in app.list_queues() if each.queue == name), None)
    out = Output(asked)
    if out.as_json:
        out.json({"queue": name, "changed": changed, "limits": limit_fields(now)})
    else:
        out.line(f"{plain(name)}: {now or 'no limits'}")
