"""`wherry top`: what is wrong, the queues and the workers, looked at again and again.

A look counts all live tasks, as `wherry queues list` does: on millions of them every few seconds
is too often. While the database is away what was seen last stays, and is said to be old: whoever
watches at three in the morning watches for just that.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from wherry.cli import values
from wherry.cli.asked import Asked, with_database, with_json, with_verbosity
from wherry.cli.opened import opened
from wherry.cli.output import Column, Output, is_terminal
from wherry.cli.text import plain
from wherry.domain.durations import span
from wherry.domain.top import Look, changes, problems_in, problems_of_each
from wherry.errors import Unavailable

if TYPE_CHECKING:
    from rich.text import Text

    from wherry.app.app import App

_QUEUES = ("queue", "ready", "delayed", "parked", "leased", "oldest due", "change")
_WORKERS = ("worker", "state", "slots", "memory", "version", "last beat", "queues")
# On fewer columns than these only some are shown.
_WIDE = 70
_NARROW: dict[tuple[str, ...], tuple[int, ...]] = {_QUEUES: (0, 1, 5, 6), _WORKERS: (0, 1, 5)}
# Which hold texts; the others are short, and are never cut.
_TEXTS: dict[tuple[str, ...], tuple[int, ...]] = {_QUEUES: (0,), _WORKERS: (0, 6)}
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
            _tell(out, _look(app))
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
            screen = _Screen(live.console.width, live.console.height)
            live.update(screen.shown(before, look, away), refresh=True)
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


def _tell(out: Output, look: Look) -> None:
    """Write all of one look."""
    from rich.text import Text

    problems = "\n".join(plain(said) for said in problems_in(look))
    head = Text(problems, "bold red") if problems else Text("nothing is wrong", "green")
    out.show(head)
    for titles, rows in ((_QUEUES, _queue_rows(None, look)), (_WORKERS, _worker_rows(look))):
        last = len(titles) - 1
        out.line()
        out.table(
            [Column(title, n not in (0, last), 0 < n < last) for n, title in enumerate(titles)],
            rows,
        )


def _queue_rows(before: Look | None, look: Look) -> list[tuple[str, ...]]:
    grown = changes(before, look)
    return [
        (
            depth.queue,
            *(f"{n:,}" for n in (depth.ready, depth.delayed, depth.parked, depth.leased)),
            "" if depth.oldest_due_seconds is None else span(depth.oldest_due_seconds),
            f"{grown[depth.queue]:+,.1f}/s" if depth.queue in grown else "",
        )
        for depth in sorted(look.queues, key=lambda depth: (-depth.ready, depth.queue))
    ]


def _worker_rows(look: Look) -> list[tuple[str, ...]]:
    now = datetime.now(UTC)
    return [
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


class _Screen:
    """One look on a terminal of so many columns and lines: a share of it for each of three lists.

    What has no room is counted. A list that needs less than its share leaves it to the others.
    """

    def __init__(self, columns: int, lines: int) -> None:
        self._columns = columns
        self._lines = lines

    def shown(self, before: Look | None, look: Look, away: _Away | None = None) -> Any:
        """Return what is to be seen."""
        from rich.console import Group
        from rich.text import Text

        # Two empty lines, two of titles.
        room = self._lines - 4
        # In turns: three thousand queues that are behind must not hide that a worker fell silent.
        turns = zip_longest(*problems_of_each(look))
        problems = [said for turn in turns for said in turn if said is not None]
        if away is not None:
            old = f"out of reach for {span(monotonic() - away.since)}, what stands here is as old"
            problems.insert(0, f"{old}: {away.why}")
        head = self._problems(problems, room // 3) or [Text("nothing is wrong", style="green")]
        room -= sum(self._height(text) for text in head)
        queues, workers = _queue_rows(before, look), _worker_rows(look)
        for_workers = min(len(workers), max(room // 3, room - len(queues)))
        return Group(
            *head,
            Text(),
            *self._table(_QUEUES, queues, room - for_workers, "queues"),
            Text(),
            *self._table(_WORKERS, workers, for_workers, "workers"),
        )

    def _height(self, text: Text) -> int:
        return max(1, -(-text.cell_len // self._columns))

    def _problems(self, problems: Sequence[str], room: int) -> list[Text]:
        from rich.text import Text

        told: list[Text] = []
        for said in problems:
            text = Text(plain(said), style="bold red", overflow="fold")
            needed = self._height(text) + (len(told) + 1 < len(problems))
            if told and sum(map(self._height, told)) + needed > room:
                more = Text(f"and {len(problems) - len(told):,} more", style="bold red")
                return [*told, more]
            told.append(text)
        return told

    def _table(
        self, titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], room: int, what: str
    ) -> Iterator[Any]:
        from rich.table import Table
        from rich.text import Text

        last = len(titles) - 1
        kept = range(len(titles)) if self._columns >= _WIDE else _NARROW[titles]
        texts = [n for n in _TEXTS[titles] if n in kept]
        fit = len(rows) if len(rows) <= room else max(0, room - 1)
        taken = sum(
            max(map(len, (titles[n], *(row[n] for row in rows[:fit])))) + 2
            for n in kept
            if n not in texts
        )
        for_texts = max(8, (self._columns - taken) // len(texts) - 2)
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for n in kept:
            table.add_column(
                titles[n],
                justify="right" if 0 < n < last else "left",
                no_wrap=True,
                max_width=for_texts if n in texts else None,
            )
        for row in rows[:fit]:
            table.add_row(*(Text(plain(row[n]), overflow="ellipsis") for n in kept))
        yield table
        if fit < len(rows):
            yield Text(f"and {len(rows) - fit:,} more {what}")
