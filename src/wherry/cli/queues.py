"""`wherry queues`: look at queues, pause and resume them."""

from __future__ import annotations

import click

from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Output
from wherry.cli.shown import show_queues
from wherry.cli.text import plain


@click.group()
def queues() -> None:
    """Look at queues, pause and resume them."""


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
    _tell(asked, name, changed, done="paused", already="was paused before")


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
        changed = app.resume_queue(name, reason=reason)
    _tell(asked, name, changed, done="resumed", already="was not paused")


def _tell(asked: Asked, name: str, changed: bool, *, done: str, already: str) -> None:
    out = Output(asked)
    if out.as_json:
        out.json({"queue": name, "changed": changed})
    else:
        out.line(f"{done} {plain(name)}" if changed else f"{plain(name)} {already}")
