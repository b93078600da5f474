"""`wherry cron`: look at schedules, add, run, pause, resume and delete them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from wherry.cli import values
from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Output
from wherry.cli.payload import read_payload
from wherry.cli.shown_schedules import show_schedule, show_schedules, show_ticks
from wherry.cli.text import plain
from wherry.commands.schedules import require
from wherry.domain.cron import Missed, Overlap


@click.group()
def cron() -> None:
    """Look at schedules, add, run, pause, resume and delete them."""


@cron.command(name="list")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def list_schedules(asked: Asked, /) -> None:
    """List schedules, each with its next time in its own zone and in UTC, and what came of others.

    A schedule's zone is UTC unless its code says otherwise.
    """
    with opened(asked) as app:
        found = app.list_schedules()
    show_schedules(Output(asked), found)


@cron.command()
@click.argument("name", metavar="NAME")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def show(asked: Asked, /, name: str) -> None:
    """Show all that is known of one schedule."""
    with opened(asked) as app:
        found = app.get_schedule(name)
    require(found is not None, name)
    assert found is not None
    show_schedule(Output(asked), found)


@cron.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=50,
    help="Show at most N (default: 50).",
)
@click.option(
    "--before",
    metavar="INSTANT",
    type=values.instant,
    help="Only those planned before: the next page.",
)
@with_database
@with_json
@with_verbosity
@click.pass_obj
def history(asked: Asked, /, name: str, limit: int, before: datetime | None) -> None:
    """List what became of a schedule's times, newest first, and what was run by hand."""
    with opened(asked) as app:
        ticks = app.list_ticks(name, limit=limit, before=before)
    show_ticks(Output(asked), ticks, limit=limit)


@cron.command()
@click.argument("name", metavar="NAME")
@click.argument("expression", metavar="CRON")
@click.argument("type", metavar="TYPE")
@click.argument("payload", metavar="[PAYLOAD]", default="{}")
@click.option(
    "--tz", metavar="ZONE", default="UTC", help="IANA zone in which CRON is read (default: UTC)."
)
@click.option(
    "--missed",
    type=click.Choice([str(each) for each in Missed]),
    default="last",
    help="What becomes of times that nobody saw to (default: last).",
)
@click.option(
    "--overlap",
    type=click.Choice([str(each) for each in Overlap]),
    default="allow",
    help="Whether a task comes while the last one has not ended (default: allow).",
)
@click.option("--queue", metavar="NAME", help="Queue (default: default).")
@click.option(
    "--priority", metavar="N", type=values.Whole(), help="-100 to 100, higher first (default: 0)."
)
@click.option(
    "--max-attempts", metavar="N", type=values.Whole(), help="1 means no retry (default: 20)."
)
@click.option("--timeout", metavar="DURATION", type=values.duration, help="Limit of one attempt.")
@click.option(
    "--ttl",
    metavar="DURATION",
    type=values.duration,
    help="Cancel a task if it has not started in this time.",
)
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; repeatable.")
@click.option("--reason", metavar="TEXT", help="Why, as the audit will say.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def add(
    asked: Asked,
    /,
    name: str,
    expression: str,
    type: str,
    payload: str,
    tags: tuple[str, ...],
    **options: Any,
) -> None:
    """Add a schedule by hand: a task of TYPE at each time of CRON, until it is deleted.

    CRON is five fields in one argument, such as '0 3 * * *'. PAYLOAD is a JSON object, - or @FILE.
    """
    given = read_payload(payload, hint="PAYLOAD")
    with opened(asked) as app:
        added = app.add_schedule(name, expression, type, given, tags=list(tags), **options)
    Output(asked).changed(
        {"schedule": name}, added, done="added", already="is there already, and stays as it is"
    )


@cron.command()
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", help="Why, as the history and the audit will say.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def run(asked: Asked, /, name: str, reason: str | None) -> None:
    """Enqueue one task of a schedule now, whatever its times; its next one stays what it is."""
    with opened(asked) as app:
        stored = app.run_schedule(name, reason=reason)
    out = Output(asked)
    if out.as_json:
        out.json({"schedule": name, "id": stored.id})
    else:
        out.line(f"enqueued task {stored.id} of {plain(name)}")


@cron.command()
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", help="Why, as the listing and the audit will say.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def pause(asked: Asked, /, name: str, reason: str | None) -> None:
    """Let a schedule bring no more tasks until it is resumed; those that are there run."""
    with opened(asked) as app:
        changed = app.pause_schedule(name, reason=reason)
    Output(asked).changed({"schedule": name}, changed, done="paused", already="was paused before")


@cron.command()
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", help="Why, as the audit will say.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def resume(asked: Asked, /, name: str, reason: str | None) -> None:
    """Let a paused schedule bring tasks again; the times of the pause are not made up."""
    with opened(asked) as app:
        changed = app.resume_schedule(name, reason=reason)
    Output(asked).changed({"schedule": name}, changed, done="resumed", already="was not paused")


@cron.command()
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", help="Why, as the audit will say.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def delete(asked: Asked, /, name: str, reason: str | None) -> None:
    """Delete a schedule that no live worker declares, with its history; its tasks stay."""
    with opened(asked) as app:
        changed = app.delete_schedule(name, reason=reason)
    if not changed:
        raise click.ClickException(
            f"live workers declare {plain(name)}: take it out of their code first, or pause it"
        )
    Output(asked).changed({"schedule": name}, changed, done="deleted", already="")
