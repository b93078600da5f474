"""Writes answers: tables for people, one JSON document for programs, and notes on stderr.

Answers go to stdout and everything else to stderr, so that `--json` can be piped. Colours come
only to a terminal, and never with NO_COLOR; a pipe gets whole lines, whatever their length.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any

from wherry.cli.asked import Asked
from wherry.cli.text import json_text, plain

if TYPE_CHECKING:
    from rich.console import Console

# A pipe has no width: nothing is cut or wrapped there.
_NO_END = 100_000
_LEAST_FOR_TEXT = 12
_GAP = 2
# So many rows are written at a time: of a list of thousands the first are seen at once.
_ROWS_AT_ONCE = 250
_COLORS = {
    "queued": "cyan",
    "leased": "blue",
    "succeeded": "green",
    "failed": "red",
    "dead": "red",
    "canceled": "yellow",
    "applied": "green",
    "pending": "yellow",
    "problem": "bold red",
    "warning": "yellow",
    "unknown": "magenta",
    "ok": "green",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `whole` ones are never wrapped; the others share what is left."""

    title: str
    whole: bool = False
    right: bool = False


class Output:
    """Where one verb's answer goes."""

    def __init__(self, asked: Asked) -> None:
        self.as_json = asked.as_json
        self.is_quiet = asked.verbosity < 0

    def json(self, value: Any) -> None:
        """Write the one document of the answer."""
        write_out(json_text(value) + "\n")

    def changed(self, what: dict[str, Any], changed: bool, *, done: str, already: str) -> None:
        """Answer whether *what*, the first value of which is its name, was changed now."""
        if self.as_json:
            self.json({**what, "changed": changed})
            return
        name = plain(str(next(iter(what.values()))))
        self.line(f"{done} {name}" if changed else f"{name} {already}")

    def line(self, text: str = "", *, bold: bool = False) -> None:
        """Write lines for people; what is in *text* of somebody's data was made plain before."""
        if not bold:
            write_out("".join(f"{line.rstrip()}\n" for line in text.split("\n")))
            return
        from rich.text import Text

        self._print(Text(text, style="bold"))

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
        """Write a table; on a terminal too narrow for it, a block of lines for each row."""
        cells = [[plain(cell) for cell in row] for row in rows]
        console = self._console()
        widths = _widest(columns, cells)
        if _needed(columns, widths) > console.width:
            self._blocks(columns, cells)
        else:
            self._rows(columns, cells, _shared(columns, widths, console.width))

    def show(self, thing: Any) -> None:
        """Write something that rich can show, whose texts were made plain before."""
        self._print(thing)

    def named_lines(self, rows: Iterable[tuple[str, str, Sequence[str]]]) -> None:
        """Write a word and a name beside lines of any length, which are wrapped in their column.

        On a terminal that has no room for such a column the lines stand below.
        """
        from rich.table import Table
        from rich.text import Text

        told = [
            (plain(word), plain(name), [plain(each) for each in texts])
            for word, name, texts in rows
        ]
        columns = (Column("", whole=True), Column("", whole=True), Column(""))
        cells = [[word, name, "\n".join(lines)] for word, name, lines in told]
        is_narrow = _needed(columns, _widest(columns, cells)) > self._console().width
        table = Table(box=None, padding=(0, _GAP, 0, 0), show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for word, name, lines in told:
            shown = Text(word, style=_COLORS.get(word, ""))
            if is_narrow:
                self._print(Text("  ").join((shown, Text(name))))
                self.line("\n".join(lines) + "\n")
            else:
                table.add_row(shown, Text(name), Text("\n".join(lines)))
        if table.row_count:
            self._print(table)

    def note(self, text: str) -> None:
        """Say something on stderr, unless --quiet."""
        if not self.is_quiet:
            print_error(text)

    def _rows(
        self, columns: Sequence[Column], cells: list[list[str]], widths: Sequence[int]
    ) -> None:
        """Write rows in columns of these widths, in which texts are folded.

        Rich's own table looks at each cell many times: 20,000 rows took it a quarter of a minute,
        in which nothing was to be seen.
        """
        from rich.cells import cell_len
        from rich.text import Text

        console = self._console()
        gap = " " * _GAP

        def folded(cell: str, width: int) -> list[str]:
            if cell_len(cell) <= width:
                return [cell]
            return [each.plain for each in Text(cell).wrap(console, width, overflow="fold")]

        def line(row: Sequence[str], styles: Sequence[str | None]) -> Text:
            text = Text()
            for column, cell, width, style in zip(columns, row, widths, styles, strict=True):
                room = " " * (width - cell_len(cell))
                text.append(room if column.right else "")
                text.append(cell, style)
                text.append(gap if column.right else room + gap)
            return text

        self._print(line([column.title for column in columns], ["bold"] * len(columns)))
        for part in _parts(cells):
            lines: list[Text] = []
            for row in part:
                styles = [_COLORS.get(cell) for cell in row]
                each = [folded(cell, width) for cell, width in zip(row, widths, strict=True)]
                lines += [line(below, styles) for below in zip_longest(*each, fillvalue="")]
            self._print(Text("\n").join(lines))

    def _blocks(self, columns: Sequence[Column], cells: list[list[str]]) -> None:
        width = max(len(column.title) for column in columns)
        for part in _parts(cells):
            lines: list[str] = []
            for row in part:
                told = zip(columns, row, strict=True)
                lines += [f"{column.title:<{width}}  {cell}" for column, cell in told if cell]
                lines.append("")
            self.line("\n".join(lines))

    def _print(self, thing: Any) -> None:
        # Rendered first and written here, so that a broken pipe is met in one place only.
        console = self._console()
        with console.capture() as captured:
            console.print(thing, soft_wrap=not _is_table(thing))
        lines = (line.rstrip() for line in captured.get().splitlines())
        write_out("\n".join(lines) + "\n")

    def _console(self) -> Console:
        from rich.console import Console

        console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        if not console.is_terminal:
            console.width = _NO_END
        return console


def write_out(text: str) -> None:
    """Write all of *text* to stdout. Raises BrokenPipeError if nobody reads it, any more or at all.

    With PYTHONUNBUFFERED, which containers like to set, Python's own write takes what the kernel
    took for the whole, and the rest of a long answer would be lost without an error.
    """
    stream = sys.stdout
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise BrokenPipeError(errno.EPIPE, "stdout is closed")
    stream.flush()
    left = memoryview(text.encode(stream.encoding, stream.errors or "strict"))
    while left:
        left = left[stream.buffer.write(left) :]
    stream.buffer.flush()


def print_error(text: str) -> None:
    """Write *text*, made plain, to stderr; where that takes nothing, the exit code has to do."""
    # A process may have been started without one.
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
        with suppress(OSError):
            sys.stderr.write(plain(text, lines=True) + "\n")
            sys.stderr.flush()


def is_terminal() -> bool:
    """Whether somebody sits at both ends: to be asked, and to be shown how it goes."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _is_table(thing: Any) -> bool:
    from rich.table import Table

    return isinstance(thing, Table)


def _parts(cells: list[list[str]]) -> Iterator[list[list[str]]]:
    left = iter(cells)
    while part := list(islice(left, _ROWS_AT_ONCE)):
        yield part


def _widest(columns: Sequence[Column], cells: list[list[str]]) -> list[int]:
    """Return how wide each column would like to be."""
    from rich.cells import cell_len

    return [
        max([cell_len(column.title), *(cell_len(row[n]) for row in cells)])
        for n, column in enumerate(columns)
    ]


def _needed(columns: Sequence[Column], widths: Sequence[int]) -> int:
    """Return how wide a terminal must be for columns of these widths in a table."""
    return sum(
        (width if column.whole else min(width, _LEAST_FOR_TEXT)) + _GAP
        for column, width in zip(columns, widths, strict=True)
    )


def _shared(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """Return the widths that columns get: of what is left by whole ones, each text its share."""
    given = list(widths)
    left = (
        room
        - _GAP * len(widths)
        - sum(width for column, width in zip(columns, widths, strict=True) if column.whole)
    )
    texts = sorted(
        (width, n)
        for n, (width, column) in enumerate(zip(widths, columns, strict=True))
        if not column.whole
    )
    for turn, (width, n) in enumerate(texts):
        # The narrowest first: what one of them does not need is the others'.
        given[n] = min(width, left // (len(texts) - turn))
        left -= given[n]
    return given
