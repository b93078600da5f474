"""`wherry workers`: see who works, and ask workers to drain, to stop or to go on.

`wherry worker`, without an s, runs one. Nobody is waited for here: a worker hears of it at its next
beat, within half a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Output
from wherry.cli.shown import show_workers
from wherry.domain.counting import count
from wherry.domain.worker import Directive
from wherry.errors import WherryError

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def workers() -> None:
    """See who works; ask workers to drain, to stop or to go on."""


@workers.command(name="list")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def list_workers(asked: Asked, /) -> None:
    """List the workers that were heard of in the last day."""
    with opened(asked) as app:
        found = app.list_workers()
    show_workers(Output(asked), found)


def _with_names(command: F) -> F:
    add_names = click.argument("names", metavar="NAME...", nargs=-1, required=True)
    add_reason = click.option(
        "--reason", metavar="TEXT", help="Why, as the listing and the audit will say."
    )
    return add_names(add_reason(with_database(with_json(with_verbosity(command)))))


@workers.command()
@_with_names
@click.pass_obj
def drain(asked: Asked, /, names: tuple[str, ...], reason: str | None) -> None:
    """Let workers finish what they run, and lease nothing until they are resumed."""
    _direct(asked, names, Directive.DRAIN, reason)


@workers.command()
@_with_names
@click.pass_obj
def stop(asked: Asked, /, names: tuple[str, ...], reason: str | None) -> None:
    """Let workers finish what they run and end, as after SIGTERM.

    A supervisor (`--processes`) starts others in their place: that is a rolling restart.
    """
    _direct(asked, names, Directive.STOP, reason)


@workers.command()
@_with_names
@click.pass_obj
def resume(asked: Asked, /, names: tuple[str, ...], reason: str | None) -> None:
    """Let workers that drain lease again."""
    _direct(asked, names, Directive.NONE, reason)


_SAID = {
    Directive.DRAIN: "asked to drain",
    Directive.STOP: "asked to stop",
    Directive.NONE: "asked to go on",
}


def _direct(asked: Asked, names: tuple[str, ...], directive: Directive, reason: str | None) -> None:
    with opened(asked) as app:
        told = app.direct_workers(names, directive, reason=reason)
    out = Output(asked)
    if out.as_json:
        out.json({"directive": directive, "told": told})
    elif told:
        out.line(f"{count(told, 'worker')} {_SAID[directive]}; heard within half a minute")
    if not told:
        raise WherryError("no live worker has such a name: wherry workers list")
