"""Shows a running demo: bars that move where there is a terminal, else a line now and then."""

from __future__ import annotations

from collections import deque
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from examples.demo.facts import Counts

RATE_OVER_SECONDS = 1.0
LINE_EVERY_SECONDS = 2.0


class Rate:
    """How fast a number grows, over the last second."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, number: int) -> float:
        """Take in the number as it is now; return its growth in a second."""
        now = monotonic()
        self._seen.append((now, number))
        while now - self._seen[0][0] > RATE_OVER_SECONDS:
            self._seen.popleft()
        began_at, at_first = self._seen[0]
        return (number - at_first) / max(now - began_at, 0.1)


class Show:
    """What the demo tells while it runs."""

    def __init__(self, console: Console, *, files: int) -> None:
        self._console = console
        self._moves = console.is_terminal and not console.is_dumb_terminal
        self._began_at = monotonic()
        self._line_at = self._began_at
        self._loaded = Rate()
        self._done = Rate()
        self._progress = Progress(
            TextColumn("{task.description:>8}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:>4.0f}/s"),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not self._moves,
        )
        self._loading = self._progress.add_task("loaded", total=files, rate=0, note="")
        self._finishing = self._progress.add_task("finished", total=files, rate=0, note="")

    def say(self, event: str) -> None:
        """Tell of something that happened."""
        self._console.print(
            f"{monotonic() - self._began_at:5.1f} s  {event}", markup=False, soft_wrap=True
        )

    def update(self, counts: Counts) -> None:
        """Show how far the work is."""
        loaded, done = self._loaded.add(counts.loaded), self._done.add(counts.finished)
        note = f"{counts.leased} leased, {counts.queued} queued"
        self._progress.update(self._loading, completed=counts.loaded, rate=loaded)
        self._progress.update(
            self._finishing,
            completed=counts.finished,
            total=max(counts.tasks, 1),
            rate=done,
            note=note,
        )
        if not self._moves and monotonic() >= self._line_at:
            self._line_at = monotonic() + LINE_EVERY_SECONDS
            self.say(
                f"loaded {counts.loaded} ({loaded:.0f}/s),"
                f" finished {counts.finished} ({done:.0f}/s); {note}"
            )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()
