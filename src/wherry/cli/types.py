"""`wherry types`: pause and resume types of tasks."""

from __future__ import annotations

from dataclasses import asdict

import click

from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Column, Output
from wherry.cli.text import moment

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
    Output(asked).changed(
        {"type": name, "queue": queue}, changed, done="paused", already="was paused before"
    )


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
        changed = app.resume_type(name, queue=queue, reason=reason)
    Output(asked).changed(
        {"type": name, "queue": queue}, changed, done="resumed", already="was not paused there"
    )
