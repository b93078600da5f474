"""`wherry queues`: look at queues."""

from __future__ import annotations

import click

from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Output
from wherry.cli.shown import show_queues


@click.group()
def queues() -> None:
    """Look at queues."""


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
