"""`wherry dead`: look at the tasks that ended badly, put them back, or delete them.

These are the dead (attempts ran out) and the failed (the handler said: do not retry). By id, too,
nothing else is touched here: `wherry tasks` is for all the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from wherry.cli import bulk, values
from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Output
from wherry.cli.selecting import (
    change,
    chosen,
    page_place,
    selection,
    with_filters,
    with_merge_payload,
    with_page,
    with_per_second,
    with_search_timeout,
    with_selection,
    with_to_queue,
)
from wherry.cli.shown import show_task, show_tasks
from wherry.cli.shown_groups import show_groups
from wherry.cli.tasks import requeuing
from wherry.errors import NotFound, WherryError

if TYPE_CHECKING:
    from wherry.app.app import App

_STATES = ("dead", "failed")
_NOT_DEAD = "neither dead nor failed"


@click.group()
def dead() -> None:
    """Look at dead and failed tasks, put them back, or delete them."""


@dead.command(name="list")
@with_page(_STATES, "both")
@click.pass_obj
def list_dead(asked: Asked, /, limit: int, **given: Any) -> None:
    """List dead and failed tasks, newest first, each with its reason and last error."""
    choice, place = chosen(given, default=_STATES), page_place(given)
    with opened(asked) as app:
        page = choice.page(app, limit=limit, **place)
    show_tasks(Output(asked), page, dead=True)


@dead.command()
@with_filters(_STATES, "both")
@with_search_timeout
@with_database
@with_json
@with_verbosity
@click.pass_obj
def groups(asked: Asked, /, search_timeout: timedelta, **given: Any) -> None:
    """Group dead and failed tasks by what their errors have in common."""
    choice = chosen(given, default=_STATES)
    with opened(asked) as app:
        found = app.group_dead_tasks(timeout=search_timeout, **choice.options)
    show_groups(Output(asked), found)


@dead.command()
@click.argument("id", metavar="ID", type=values.TASK_ID)
@with_database
@with_json
@with_verbosity
@click.pass_obj
def show(asked: Asked, /, id: int) -> None:
    """Show why a task is dead: every attempt with its error and traceback, and the payload."""
    with opened(asked) as app:
        task = app.get_task(id)
    if task is None:
        raise NotFound(id)
    if task.state not in _STATES:
        raise WherryError(f"task {id} is {task.state}, not dead: wherry tasks show {id}")
    show_task(Output(asked), task)


@dead.command()
@with_selection(_STATES, "both")
@click.option("--without-key", is_flag=True, help="Go on without their idempotency keys.")
@with_per_second
@with_to_queue
@with_merge_payload
@click.pass_obj
def requeue(
    asked: Asked,
    /,
    without_key: bool,
    per_second: float | None,
    to_queue: str | None,
    merge_payload: str | None,
    **given: Any,
) -> None:
    """Put dead and failed tasks back: attempts start again, the history stays."""
    selected = selection(given, default=_STATES)
    verb = requeuing(without_key, per_second, to_queue, merge_payload)
    change(asked, verb if selected.ids is None else _only_dead(verb), selected)


@dead.command()
@with_selection(_STATES, "both")
@click.pass_obj
def purge(asked: Asked, /, **given: Any) -> None:
    """Delete dead and failed tasks for good, with their history."""
    selected = selection(given, default=_STATES)
    verb = bulk.Verb(
        name="purge",
        done={"purged": "purged"},
        left={
            "not_final": "not finished, or in somebody else's hands",
            "unknown": "not there (any more)",
        },
        carry=_purge,
    )
    change(asked, verb if selected.ids is None else _only_dead(verb), selected)


def _purge(app: App, ids: Sequence[int]) -> list[bulk.Answer]:
    answers = app.purge_many(ids)
    return [bulk.Answer(id, answer) for id, answer in zip(ids, answers, strict=True)]


def _only_dead(verb: bulk.Verb) -> bulk.Verb:
    """Return the verb for ids that somebody typed: those of other tasks are left alone."""
    left = {"unknown": "not there (any more)", **verb.left, "not_dead": _NOT_DEAD}
    return replace(verb, left=left, carry=partial(_carry_dead, carry=verb.carry))


def _carry_dead(
    app: App, ids: Sequence[int], *, carry: Callable[[App, Sequence[int]], list[bulk.Answer]]
) -> list[bulk.Answer]:
    answers: list[bulk.Answer] = []
    found: list[int] = []
    for id in ids:
        task = app.get_task(id)
        if task is None:
            answers.append(bulk.Answer(id, "unknown"))
        elif task.state not in _STATES:
            answers.append(bulk.Answer(id, "not_dead"))
        else:
            found.append(id)
    return answers + (carry(app, found) if found else [])
