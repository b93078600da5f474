"""How verbs choose tasks; and how bulk verbs ask, show how it goes, and tell what became of them.

Three ways to choose:

    wherry dead requeue 17 18                        ids: naming them is consent enough
    wherry dead requeue --type shop.mail --yes       a filter: asked about, or --yes
    wherry dead requeue --all --rate 100/s           everything: has to be said
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wherry.cli import bulk, values
from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Output, is_terminal, print_error
from wherry.cli.shown import show_sample, task_fields
from wherry.domain.counting import count

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.domain.task import Task

F = TypeVar("F", bound=Callable[..., Any])

_MOMENTS = {
    "created_after": "Only if enqueued then or later.",
    "created_before": "Only if enqueued before.",
    "finished_after": "Only if finished then or later.",
    "finished_before": "Only if finished before.",
}
_SAMPLE = 10
_COUNTED_AT_ONCE = 1000
_NAMED_TO_PEOPLE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What was asked of one bulk verb: these ids, or what is chosen."""

    ids: tuple[int, ...] | None
    chosen: bulk.Chosen
    dry_run: bool
    yes: bool
    rate: float | None


def with_filters(states: Sequence[str], default: str) -> Callable[[F], F]:
    """Add the options that narrow a choice of tasks; `chosen` reads them."""
    return _with(
        click.option("--queue", metavar="NAME", help="Only tasks of this queue."),
        click.option("--type", metavar="NAME", help="Only tasks of this type."),
        click.option("--tag", metavar="TAG", help="Only tasks with this tag."),
        click.option("--key", metavar="KEY", help="Only the task with this idempotency key."),
        click.option("--worker", metavar="NAME", help="Only tasks that this worker has, or ended."),
        click.option("--error", metavar="TEXT", help="Only if the last error holds this text."),
        click.option(
            "--payload",
            metavar="PATH=VALUE",
            multiple=True,
            help="Only if the payload has this, such as customer.id=42; repeatable.",
        ),
        click.option(
            "--fingerprint",
            metavar="HEX",
            help="Only tasks of this group of dead ones: see wherry dead groups.",
        ),
        click.option(
            "--older-than",
            metavar="DURATION",
            type=values.duration,
            help="Only if finished so long ago, such as 2h; for live tasks, if enqueued.",
        ),
        *(
            click.option(
                f"--{name.replace('_', '-')}", metavar="INSTANT", type=values.instant, help=text
            )
            for name, text in _MOMENTS.items()
        ),
        click.option(
            "--state",
            multiple=True,
            type=click.Choice(states),
            help=f"Only tasks in this state; repeatable (default: {default}).",
        ),
    )


def with_search_timeout(command: F) -> F:
    """Add how long a search may take."""
    add = click.option(
        "--search-timeout",
        metavar="DURATION",
        type=values.duration,
        default="30s",
        help="Give up after so long, 60s at most (default: 30s).",
    )
    return add(command)


def with_to_queue(command: F) -> F:
    """Add into which queue tasks are put back."""
    add = click.option(
        "--to-queue",
        metavar="QUEUE",
        help="Put them into this queue, without their keys (default: each into its own).",
    )
    return add(command)


def with_merge_payload(command: F) -> F:
    """Add what of payloads is changed as they are put back."""
    add = click.option(
        "--merge-payload",
        metavar="JSON",
        help="Set these members of each payload, or remove one by null; - reads stdin, @FILE a"
        " file.",
    )
    return add(command)


def with_per_second(command: F) -> F:
    """Add how fast what is put back becomes ready."""
    add = click.option(
        "--per-second",
        metavar="N",
        type=float,
        help="Let so many become ready in a second (default: all at once).",
    )
    return add(command)


def with_page(states: Sequence[str], default: str) -> Callable[[F], F]:
    """Add filters, and which page of the tasks that pass them."""
    return _with(
        with_filters(states, default),
        click.option(
            "--limit",
            metavar="N",
            type=values.Whole(1, 1000),
            default=100,
            help="At most so many, up to 1000 (default: 100).",
        ),
        click.option(
            "--after",
            metavar="ID",
            type=values.TASK_ID,
            help="Go on after this task, the last of the page before.",
        ),
        click.option(
            "--before",
            metavar="ID",
            type=values.TASK_ID,
            help="Go back: the page that ends before this task, the first of another.",
        ),
        with_search_timeout,
        with_database,
        with_json,
        with_verbosity,
    )


def chosen(given: dict[str, Any], *, default: Sequence[str]) -> bulk.Chosen:
    """Return the choice that the options of `with_filters` make, taking them out of *given*."""
    states: tuple[str, ...] = given.pop("state") or tuple(default)
    said = {name: given.pop(name) for name in bulk.CHOOSING}
    if said["payload"]:
        from wherry.app.asked_filter import held_text

        said["payload"] = held_text(said["payload"])
    else:
        said["payload"] = None
    return bulk.Chosen(states=states, **said)


def page_place(given: dict[str, Any]) -> dict[str, Any]:
    """Return which page is wanted, and how long its search may take. Raises UsageError."""
    if given["after"] is not None and given["before"] is not None:
        raise click.UsageError("give --after or --before, not both")
    return {
        "after": given["after"],
        "before": given["before"],
        "timeout": given["search_timeout"],
    }


def with_selection(states: Sequence[str], default: str) -> Callable[[F], F]:
    """Add ids, filters and what all bulk verbs can be asked; `selection` reads them."""
    return _with(
        click.argument("ids", metavar="[ID]...", nargs=-1, type=values.TASK_ID),
        click.option("--all", "everything", is_flag=True, help="All of them, without a filter."),
        with_filters(states, default),
        click.option("--dry-run", is_flag=True, help="Count and show some; change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option(
            "--rate",
            metavar="RATE",
            type=values.rate,
            help="At most so many in a time, such as 100/s or 600/min.",
        ),
        with_database,
        with_json,
        with_verbosity,
    )


def selection(given: dict[str, Any], *, default: Sequence[str]) -> Selection:
    """Return what the options of `with_selection` select. Raises UsageError if that is unclear."""
    ids: tuple[int, ...] = tuple(dict.fromkeys(given["ids"]))
    states_given = bool(given["state"])
    choice = chosen(given, default=default)
    narrowed = choice.narrows or states_given
    if ids and (narrowed or given["everything"]):
        raise click.UsageError("give ids, or a filter, not both")
    if not ids and not narrowed and not given["everything"]:
        raise click.UsageError("which tasks? Give ids, a filter such as --type, or --all")
    return Selection(
        ids=ids or None,
        chosen=choice,
        dry_run=given["dry_run"],
        yes=given["yes"],
        rate=given["rate"],
    )


def change(asked: Asked, verb: bulk.Verb, selected: Selection) -> None:
    """Run a bulk verb to its end. Exits 1 if a task that was named, or a key, stood in the way."""
    out = Output(asked)
    with opened(asked) as app:
        # What it is to be done with is looked at before anybody is asked for consent, and whether
        # or not there are such tasks. Of no tasks nothing is sent.
        verb.carry(app, [])
        if selected.dry_run:
            _rehearse(out, app, verb, selected)
            return
        total = _consent(app, verb, selected)
        tally = bulk.Tally()
        complete = False
        try:
            with _progress(out, verb, total) as told:
                bulk.run(
                    app,
                    verb,
                    ids=selected.ids,
                    chosen=selected.chosen,
                    rate=selected.rate,
                    tally=tally,
                    told=told,
                )
            complete = True
        finally:
            if complete or tally.total or tally.unknown:
                _tell(out, verb, tally, complete=complete)
            else:
                out.note("nothing was changed")
    named_but_not_done = selected.ids is not None and tally.done(verb) < tally.total
    if named_but_not_done or any(tally.answers[answer] for answer in verb.needs_somebody):
        click.get_current_context().exit(1)


def _with(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return one decorator that does what several do, in the order in which they are written."""

    def add(command: F) -> F:
        made: Any = command
        for decorate in reversed(decorators):
            made = decorate(made)
        result: F = made
        return result

    return add


def _rehearse(out: Output, app: App, verb: bulk.Verb, selected: Selection) -> None:
    sample: list[Task] = []
    total = 0
    if selected.ids is not None:
        found = [task for id in selected.ids if (task := app.get_task(id)) is not None]
        total, sample = len(found), found[:_SAMPLE]
    else:
        for tasks in bulk.pages(app, selected.chosen, size=_COUNTED_AT_ONCE):
            total += len(tasks)
            sample += tasks[: _SAMPLE - len(sample)]
    if out.as_json:
        out.json(
            {
                "verb": verb.name,
                "dry_run": True,
                "tasks": total,
                "sample": [task_fields(task) for task in sample],
            }
        )
        return
    out.line(f"would {verb.name} {count(total, 'task')}; nothing was changed")
    if sample:
        out.line("all of them:" if total <= _SAMPLE else f"the newest {_SAMPLE}:")
        show_sample(out, sample)


def _consent(app: App, verb: bulk.Verb, selected: Selection) -> int | None:
    """Return how many tasks there are, if that was counted; ask if nobody has consented yet."""
    if selected.ids is not None:
        return len(selected.ids)
    if not is_terminal():
        if selected.yes:
            return None
        raise click.UsageError(
            f"nobody is there to be asked: {verb.name} with --yes, or look with --dry-run"
        )
    total = sum(map(len, bulk.pages(app, selected.chosen, size=_COUNTED_AT_ONCE)))
    if not selected.yes and total:
        question = f"{verb.title} {count(total, 'task')}?"
        if not click.confirm(question, err=True):
            print_error("nothing was changed")
            click.get_current_context().exit(1)
    return total


@contextmanager
def _progress(
    out: Output, verb: bulk.Verb, total: int | None
) -> Generator[Callable[[int], object], None, None]:
    """Show on a terminal how it goes; give what is to be told how many are done."""
    if total is None or out.is_quiet or not is_terminal():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (verb.title, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(verb.name, total=total)
        yield lambda done: progress.update(bar, completed=done)


def _tell(out: Output, verb: bulk.Verb, tally: bulk.Tally, *, complete: bool) -> None:
    if out.as_json:
        out.json(tally.fields(verb, complete=complete))
        return
    for answer, word in verb.done.items():
        if tally.answers[answer] or answer == next(iter(verb.done)):
            out.line(f"{word} {count(tally.answers[answer], 'task')}")
    for answer, sentence in verb.left.items():
        if tally.answers[answer]:
            out.line(f"{count(tally.answers[answer], 'task')} left alone: {sentence}")
            named = [each for each in tally.left if each.answer == answer]
            out.line(f"  {_names(named, total=tally.answers[answer])}")
    if not complete:
        unknown = f": of {count(tally.unknown, 'more task')} it is not known" * bool(tally.unknown)
        out.note(f"stopped in the middle{unknown}; running it again is safe")


def _names(left: list[bulk.Answer], *, total: int) -> str:
    names = [
        str(each.id) if each.taken_by is None else f"{each.id} (now task {each.taken_by})"
        for each in left[:_NAMED_TO_PEOPLE]
    ]
    more = total - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")
