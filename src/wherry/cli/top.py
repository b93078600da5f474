"""`wherry top`: what is wrong, the queues and the workers, looked at again and again.

A look counts all live tasks, as `wherry queues list` does: on millions of them every few seconds
is too often. While the database is away what was seen last stays, and is said to be old: whoever
watches at three in the morning watches for just that.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from wherry.cli import values
from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Output, is_terminal
from wherry.cli.text import plain
from wherry.domain.durations import span
from wherry.domain.top import Look, changes, problems_in
from wherry.errors import Unavailable

if TYPE_CHECKING:
    from wherry.app.app import App

_QUEUES = ("queue", "ready", "delayed", "parked", "leased", "oldest due", "change")
_WORKERS = ("worker", "state", "slots", "memory", "version", "last beat", "queues")
_LEAST_EVERY = timedelta(milliseconds=500)


@click.command()
@click.option(
    "--every",
    metavar="DURATION",
    type=values.duration,
    default="2s",
    help="Look so often, 500ms at least (default: 2s).",
)
@click.option("--once", is_flag=True, help="Look once, and end.")
@with_database
@with_json
@with_verbosity
@click.pass_obj
def top(asked: Asked, /, every: timedelta, once: bool) -> None:
    """Watch queues and workers, what is wrong first; q ends it."""
    out = Output(asked)
    pause_seconds = max(every, _LEAST_EVERY).total_seconds()
    with opened(asked) as app:
        if out.as_json:
            out.json(_fields(_look(app)))
        elif once or not (is_terminal() and sys.stdout.isatty()):
            out.show(_shown(None, _look(app)))
        else:
            _watch(app, pause_seconds)


def _look(app: App) -> Look:
    return Look(
        monotonic(),
        tuple(app.list_queues()),
        tuple(app.list_workers()),
        tuple(app.list_paused_types()),
    )


def _fields(look: Look) -> dict[str, Any]:
    return {
        "problems": problems_in(look),
        "queues": [asdict(depth) for depth in look.queues],
        "workers": [asdict(worker) for worker in look.workers],
    }


def _watch(app: App, pause_seconds: float) -> None:
    from rich.live import Live

    before: Look | None = None
    look = _look(app)
    away: _Away | None = None
    with _keys() as pressed, Live(screen=True, auto_refresh=False) as live:
        while True:
            live.update(_shown(before, look, away), refresh=True)
            if _quits(pressed, pause_seconds):
                return
            try:
                before, look = look, _look(app)
                away = None
            except Unavailable as error:
                away = _Away(away.since if away else look.at, str(error))


@dataclass(frozen=True, slots=True)
class _Away:
    """That nothing has answered since a moment of our monotonic clock, and why."""

    since: float
    why: str


def _quits(pressed: Callable[[float], str], seconds: float) -> bool:
    """Wait so long, or until q is pressed; no other key has anything looked at sooner."""
    ends_at = monotonic() + seconds
    while (key := pressed(max(0.0, ends_at - monotonic()))) and key != "q":
        pass
    return key == "q"


@contextmanager
def _keys() -> Generator[Callable[[float], str], None, None]:
    """Give what waits so many seconds for a key: its letter, or nothing."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    saved = termios.tcgetattr(terminal)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([terminal], [], [], seconds)
        return os.read(terminal, 1).decode("ascii", "replace") if ready else ""

    try:
        tty.setcbreak(terminal)
        yield pressed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, saved)


def _shown(before: Look | None, look: Look, away: _Away | None = None) -> Any:
    from rich.console import Group
    from rich.text import Text

    problems = [Text(plain(said), style="bold red") for said in problems_in(look)]
    if away is not None:
        old = f"out of reach for {span(monotonic() - away.since)}, what stands here is as old"
        problems.insert(0, Text(plain(f"{old}: {away.why}"), style="bold red"))
    head = problems or [Text("nothing is wrong", style="green")]
    grown = changes(before, look)
    queues = [
        (
            depth.queue,
            *(f"{n:,}" for n in (depth.ready, depth.delayed, depth.parked, depth.leased)),
            "" if depth.oldest_due_seconds is None else span(depth.oldest_due_seconds),
            f"{grown[depth.queue]:+,.1f}/s" if depth.queue in grown else "",
        )
        for depth in sorted(look.queues, key=lambda depth: (-depth.ready, depth.queue))
    ]
    now = datetime.now(UTC)
    workers = [
        (
            worker.name,
            "alive" if worker.alive else "silent",
            "" if worker.slots is None else f"{worker.slots:,}",
            "" if worker.memory_bytes is None else f"{worker.memory_bytes / 2**20:,.0f} MiB",
            worker.version or "",
            f"{span(now - worker.beat_at)} ago",
            "*" if worker.queues is None else ", ".join(worker.queues),
        )
        for worker in look.workers
    ]
    return Group(*head, Text(), _table(_QUEUES, queues), Text(), _table(_WORKERS, workers))


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if 0 < number < len(titles) - 1 else "left")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    return table
