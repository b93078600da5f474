"""`wherry tasks`: look at tasks, ask why, cancel them, put finished ones back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from wherry.cli import bulk, values
from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Output
from wherry.cli.payload import read_payload
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
from wherry.cli.shown_why import show_why
from wherry.config import PAYLOAD_LIMIT_BYTES
from wherry.domain.state import FINAL, State
from wherry.errors import NotFound

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.domain.task import Replanned

_STATES = [str(state) for state in State]
_LIVE = ("queued", "leased")
_QUEUED = ("queued",)
_FINISHED = sorted(str(state) for state in FINAL)
# What succeeded is run again only if somebody says so.
_REQUEUED = ("dead", "failed", "canceled")


@click.group()
def tasks() -> None:
    """Look at tasks, cancel them, put finished ones back."""


@tasks.command(name="list")
@with_page(_STATES, "every state")
@click.pass_obj
def list_tasks(asked: Asked, /, limit: int, **given: Any) -> None:
    """List tasks, newest first."""
    choice, place = chosen(given, default=_STATES), page_place(given)
    with opened(asked) as app:
        page = choice.page(app, limit=limit, **place)
    show_tasks(Output(asked), page)


@tasks.command()
@with_filters(_STATES, "every state")
@click.option(
    "--most",
    metavar="N",
    type=values.Whole(1, 100_000),
    default=10_000,
    help="Stop at so many, up to 100000 (default: 10000).",
)
@with_search_timeout
@with_database
@with_json
@with_verbosity
@click.pass_obj
def count(asked: Asked, /, most: int, search_timeout: timedelta, **given: Any) -> None:
    """Count tasks, up to a number: a + behind it says that there are more."""
    choice = chosen(given, default=_STATES)
    with opened(asked) as app:
        counted = app.count_tasks(most=most, timeout=search_timeout, **choice.options)
    out = Output(asked)
    if out.as_json:
        out.json(counted._asdict())
        return
    out.line(f"{counted.tasks:,}{'+' if counted.capped else ''}")


@tasks.command()
@click.argument("id", metavar="ID", type=values.TASK_ID)
@with_database
@with_json
@with_verbosity
@click.pass_obj
def show(asked: Asked, /, id: int) -> None:
    """Show all that is known of one task, with every attempt that did not succeed."""
    with opened(asked) as app:
        task = app.get_task(id)
    if task is None:
        raise NotFound(id)
    show_task(Output(asked), task)


@tasks.command()
@click.argument("id", metavar="ID", type=values.TASK_ID)
@with_database
@with_json
@with_verbosity
@click.pass_obj
def why(asked: Asked, /, id: int) -> None:
    """Tell why a task is where it is, what holds it first, and what to do about it."""
    with opened(asked) as app:
        found = app.why(id)
    show_why(Output(asked), found)
    if found.state is None:
        # One sentence: what is wrong first, and behind it what may have been.
        missing = [str(NotFound(id)), *(reason.advice for reason in found.reasons)]
        raise click.ClickException(": ".join(missing))


@tasks.command()
@with_selection(_LIVE, "queued and leased")
@click.option("--reason", metavar="TEXT", help="Why, as the canceled tasks will say.")
@click.pass_obj
def cancel(asked: Asked, /, reason: str | None, **given: Any) -> None:
    """Cancel tasks: queued ones at once, leased ones by asking their worker to let go."""
    verb = bulk.Verb(
        name="cancel",
        done={"canceled": "canceled", "requested": "asked the workers of"},
        left={"final": "already finished", "unknown": "not there (any more)"},
        carry=partial(_cancel, reason=reason),
    )
    change(asked, verb, selection(given, default=_LIVE))


@tasks.command()
@with_selection(_QUEUED, "queued")
@click.option(
    "--priority",
    metavar="N",
    type=values.Whole(-100, 100),
    required=True,
    help="-100 to 100, higher first.",
)
@click.pass_obj
def reprioritize(asked: Asked, /, priority: int, **given: Any) -> None:
    """Give queued tasks another priority; they stand behind those that have it already."""
    verb = _replanning("reprioritize", lambda app, ids: app.reprioritize_many(ids, priority))
    change(asked, verb, selection(given, default=_QUEUED))


@tasks.command()
@with_selection(_QUEUED, "queued")
@click.option(
    "--run-after", metavar="INSTANT", type=values.instant, help="Run no sooner than then."
)
@click.option(
    "--delay", metavar="DURATION", type=values.duration, help="Run in this time from now."
)
@click.option("--now", is_flag=True, help="Run at once.")
@click.pass_obj
def reschedule(
    asked: Asked,
    /,
    run_after: datetime | None,
    delay: timedelta | None,
    now: bool,
    **given: Any,
) -> None:
    """Let queued tasks run at another time."""
    if sum((run_after is not None, delay is not None, now)) != 1:
        raise click.UsageError("when? Give one of --run-after, --delay and --now")
    wait = timedelta() if now else delay

    def carry(app: App, ids: Sequence[int]) -> list[Replanned]:
        return app.reschedule_many(ids, run_after=run_after, delay=wait)

    change(asked, _replanning("reschedule", carry), selection(given, default=_QUEUED))


@tasks.command()
@click.argument("id", metavar="ID", type=values.TASK_ID)
@click.option("--payload", metavar="JSON", help="In place of its own; - reads stdin, @FILE a file.")
@click.option("--queue", metavar="NAME", help="In place of its own.")
@click.option(
    "--delay", metavar="DURATION", type=values.duration, help="Run no sooner than in this time."
)
@click.option("--purge", is_flag=True, help="Delete the old task with it, if that has ended.")
@click.option("--reason", metavar="TEXT", help="Kept in the audit.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def copy(asked: Asked, /, id: int, payload: str | None, purge: bool, **given: Any) -> None:
    """Store a new task with the type and options of task ID, all but its key."""
    read = None if payload is None else read_payload(payload, hint="--payload")
    with opened(asked) as app:
        stored = app.copy_task(id, payload=read, purge=purge, **given)
    out = Output(asked)
    if out.as_json:
        out.json({"id": stored.id, "copy_of": id, "purged": purge})
    else:
        out.line(f"stored task {stored.id} after task {id}{', which is gone' if purge else ''}")


def _replanning(name: str, carry: Callable[[App, Sequence[int]], Sequence[Replanned]]) -> bulk.Verb:
    def answers(app: App, ids: Sequence[int]) -> list[bulk.Answer]:
        found = carry(app, ids)
        return [bulk.Answer(id, answer) for id, answer in zip(ids, found, strict=True)]

    return bulk.Verb(
        name=name,
        done={"changed": f"{name}d"},
        left={
            "leased": "in a worker's hands, or in somebody else's",
            "final": "already finished",
            "unknown": "not there (any more)",
        },
        carry=answers,
    )


@tasks.command()
@with_selection(_FINISHED, ", ".join(_REQUEUED))
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
    """Put finished tasks back: attempts start again, the history stays."""
    verb = requeuing(without_key, per_second, to_queue, merge_payload)
    change(asked, verb, selection(given, default=_REQUEUED))


def requeuing(
    without_key: bool,
    per_second: float | None = None,
    to_queue: str | None = None,
    merge_payload: str | None = None,
) -> bulk.Verb:
    """Return the verb that puts tasks back, so that not too many become ready in a second.

    *merge_payload* is what the command line was given. Raises InvalidPayload.
    """
    from wherry.app.asked import asked_patch

    patch = None if merge_payload is None else read_payload(merge_payload, hint="--merge-payload")
    # Before anybody is asked for consent.
    asked_patch(patch)
    return bulk.Verb(
        name="requeue",
        done={"queued": "requeued"},
        left={
            "key_taken": "their keys meanwhile name other tasks (--without-key goes on without)",
            "not_final": "not finished, or in somebody else's hands",
            "unknown": "not there (any more)",
            "no_object": "their payloads are no JSON objects, so nothing can be merged into them",
            "too_large": f"their payloads would be over {PAYLOAD_LIMIT_BYTES:,} bytes with that",
        },
        needs_somebody=frozenset({"key_taken", "no_object", "too_large"}),
        carry=_Requeuing(
            per_second, without_key=without_key, to_queue=to_queue, merge_payload=patch
        ),
    )


def _cancel(app: App, ids: Sequence[int], *, reason: str | None) -> list[bulk.Answer]:
    answers = app.cancel_many(ids, reason=reason)
    return [bulk.Answer(id, answer) for id, answer in zip(ids, answers, strict=True)]


class _Requeuing:
    """Puts tasks back, page by page: each page waits until those before it have become ready."""

    def __init__(self, per_second: float | None, **asked: Any) -> None:
        self._per_second = per_second
        self._asked = asked
        self._done = 0
        self._began_at = monotonic()

    def __call__(self, app: App, ids: Sequence[int]) -> list[bulk.Answer]:
        """Put back one page."""
        spread: dict[str, Any] = {}
        if self._per_second is not None:
            # Whether that is a rate at all is seen by the App, with the first page.
            before = self._done / self._per_second if self._done else 0.0
            ready_at = self._began_at + before
            spread = {
                "delay": max(0.0, ready_at - monotonic()),
                "per_second": self._per_second,
            }
        answers = app.requeue_many(ids, **self._asked, **spread)
        self._done += len(ids)
        return [bulk.Answer(each.id, each.answer, each.taken_by) for each in answers]
