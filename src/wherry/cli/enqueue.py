"""`wherry enqueue`: store one task by the name of its type.

The command line does not import your code, so it does not know a type's own options: what is not
said here has Wherry's defaults, and whether the payload fits is seen by the worker.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click

from wherry.cli import values
from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Output
from wherry.cli.payload import read_payload
from wherry.cli.text import plain


@click.command()
@click.argument("type", metavar="TYPE")
@click.argument("payload", metavar="[PAYLOAD]", default="{}")
@click.option("--queue", metavar="NAME", help="Queue (default: default).")
@click.option("--key", metavar="KEY", help="Idempotency key, unique in its queue.")
@click.option(
    "--key-ttl",
    metavar="DURATION",
    type=values.duration,
    help="How long the key stays taken after the task has finished.",
)
@click.option(
    "--priority", metavar="N", type=values.Whole(), help="-100 to 100, higher first (default: 0)."
)
@click.option(
    "--delay", metavar="DURATION", type=values.duration, help="Run no sooner than in this time."
)
@click.option(
    "--run-after",
    metavar="INSTANT",
    type=values.instant,
    help="Run no sooner than then, such as 2027-01-31T08:00:00Z.",
)
@click.option(
    "--max-attempts", metavar="N", type=values.Whole(), help="1 means no retry (default: 20)."
)
@click.option("--timeout", metavar="DURATION", type=values.duration, help="Limit of one attempt.")
@click.option(
    "--ttl",
    metavar="DURATION",
    type=values.duration,
    help="Cancel it if it has not started in this time.",
)
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; repeatable.")
@click.option(
    "--header",
    "headers",
    metavar="NAME=VALUE",
    type=values.pair,
    multiple=True,
    help="A header; repeatable.",
)
@with_database
@with_json
@with_verbosity
@click.pass_obj
def enqueue(
    asked: Asked,
    /,
    type: str,
    payload: str,
    key_ttl: timedelta | None,
    run_after: datetime | None,
    tags: tuple[str, ...],
    headers: tuple[tuple[str, str], ...],
    **options: Any,
) -> None:
    """Store a task of TYPE with PAYLOAD, a JSON object (default: {}).

    PAYLOAD is the JSON itself, - to read it from stdin, or @FILE to read it from a file.
    """
    given = read_payload(payload, hint="PAYLOAD")
    named = dict(headers)
    if len(named) != len(headers):
        names = [name for name, _ in headers]
        twice = next(name for name in names if names.count(name) > 1)
        raise click.BadParameter(
            f"{twice!r} is given twice: leave one out", param_hint="'--header'"
        )
    options |= {"key_ttl": key_ttl, "run_after": run_after, "headers": named or None}
    with opened(asked) as app:
        answer = app.enqueue(type, given, tags=list(tags), **options)
    out = Output(asked)
    if out.as_json:
        fields = ("id", "created", "payload_matches")
        out.json({name: getattr(answer, name) for name in fields})
    elif answer.created:
        out.line(f"enqueued task {answer.id} ({plain(type)})")
    else:
        same = "the same payload" if answer.payload_matches else "ANOTHER type or payload"
        out.line(f"task {answer.id} has this key already, with {same}; nothing was stored")
