"""What a benchmark prints and keeps: its prediction, its runs, and the medians side by side."""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Curve:
    """What one run of a variant was like over time, or over its percentiles."""

    variant: str
    kind: str
    xs: Sequence[float]
    ys: Sequence[float]


class Sheet:
    """The figures of one benchmark: some runs of each variant, each with the same columns.

    *digits*: how many decimals a column is shown with (none by default). A figure that could not
    be told is nan; a column that has no other is not shown.
    """

    def __init__(
        self,
        name: str,
        *,
        prediction: str,
        machine: Mapping[str, Any],
        digits: Mapping[str, int] | None = None,
    ) -> None:
        self.name = name
        self.prediction = prediction
        self.machine = dict(machine)
        self.runs: list[dict[str, Any]] = []
        self.curves: list[Curve] = []
        self.ratios: dict[str, float] = {}
        self.lessons: list[str] = []
        self._digits = dict(digits or {})
        # In a file or a pipe there is no terminal's width to keep to.
        self._console = Console(highlight=False, width=None if _is_terminal() else 150)
        self._console.print(f"[bold]{name}[/]: {told(self.machine)}")
        self._console.print(f"prediction: {prediction}\n")

    def add(self, variant: str, **figures: float) -> None:
        """Add one run, and print it."""
        self.runs.append({"variant": variant, **figures})
        known = {column: value for column, value in figures.items() if not math.isnan(value)}
        figures_told = "  ".join(f"{name} {self.shown(name, v)}" for name, v in known.items())
        self._console.print(f"[dim]{variant}: {figures_told}[/]")

    def trace(self, variant: str, kind: str, points: Iterable[tuple[float, float]]) -> None:
        """Add a curve of one run."""
        xs, ys = zip(*points, strict=True)
        self.curves.append(Curve(variant, kind, xs, ys))

    def compare(self, variant: str, other: str, column: str) -> float:
        """Say how much of *other* one has, by `ratio`, and keep that; nan if it is not known."""
        share = self.ratio(variant, other, column)
        if not math.isnan(share):
            self.ratios[f"{variant} / {other}, {column}"] = share
            self.say(f"{variant}: {share:.2f} of {other}")
        return share

    def say(self, text: str) -> None:
        """Add a sentence below the table."""
        self.lessons.append(text)

    @property
    def variants(self) -> list[str]:
        """The variants, in the order in which they came."""
        return list(dict.fromkeys(run["variant"] for run in self.runs))

    def values(self, variant: str, column: str) -> list[float]:
        """All runs' figures in one column."""
        return [r[column] for r in self.runs if r["variant"] == variant and column in r]

    def known(self, variant: str, column: str) -> list[float]:
        """Those of its figures that could be told."""
        return [value for value in self.values(variant, column) if not math.isnan(value)]

    def median(self, variant: str, column: str) -> float:
        """The median of a column over the runs; nan where there is none."""
        found = self.known(variant, column)
        return statistics.median(found) if found else math.nan

    def ratio(self, variant: str, other: str, column: str) -> float:
        """How much of another variant's figure one has: the median of the runs' own ratios.

        Runs of one round stand side by side in time, and the machine is not the same all day: a
        ratio of two medians may compare a quiet minute with a busy one.
        """
        ours, theirs = self.values(variant, column), self.values(other, column)
        if len(ours) != len(theirs) or not all(theirs):
            base = self.median(other, column)
            return self.median(variant, column) / base if base else math.nan
        pairs = [one / base for one, base in zip(ours, theirs, strict=True)]
        return statistics.median(pairs) if pairs else math.nan

    def show(self) -> None:
        """Print the table of the medians, and what was said."""
        columns = [c for c in self._columns() if any(self.known(v, c) for v in self.variants)]
        table = Table(title=f"{self.name}: medians", title_justify="left")
        table.add_column("variant")
        for column in columns:
            table.add_column(column, justify="right")
        for variant in self.variants:
            row = [self._cell(variant, column) for column in columns]
            table.add_row(variant, *row)
        self._console.print(table)
        for lesson in self.lessons:
            self._console.print(lesson)

    def write(self, path: Path) -> None:
        """Write all of it as JSON."""
        path.write_text(json.dumps(self.whole(), indent=1) + "\n")

    def whole(self) -> Any:
        """All of it, in what JSON has words for."""
        medians = {
            variant: {
                column: self.median(variant, column)
                for column in self._columns()
                if self.values(variant, column)
            }
            for variant in self.variants
        }
        whole: dict[str, _Value] = {
            "benchmark": self.name,
            "machine": self.machine,
            "prediction": self.prediction,
            "medians": medians,
            "ratios": self.ratios,
            "runs": self.runs,
            "curves": [asdict(curve) for curve in self.curves],
            "said": self.lessons,
        }
        return _plain(whole)

    def shown(self, column: str, value: float) -> str:
        """Return a figure as people read it."""
        return "?" if math.isnan(value) else f"{value:,.{self._digits.get(column, 0)}f}"

    def _columns(self) -> list[str]:
        return list(dict.fromkeys(c for run in self.runs for c in run if c != "variant"))

    def _cell(self, variant: str, column: str) -> str:
        found = self.known(variant, column)
        return self.shown(column, self.median(variant, column)) if found else ""


def percentiles(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """Return a curve: how many in a hundred of *ordered* are below, and the value there."""
    n = len(ordered)
    # In thousandths, finer at the end; those that no value is left beyond are not told.
    steps = (*range(0, 990, 5), *range(990, 1000))
    return [(step / 10, ordered[n * step // 1000]) for step in steps if n * (1000 - step) >= 1000]


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def told(machine: Mapping[str, Any]) -> str:
    """Return what a machine is, as one line."""
    return ", ".join(f"{name} {value}" for name, value in machine.items())


_Value: TypeAlias = "Mapping[str, _Value] | Sequence[_Value] | str | float | None"


def _plain(value: _Value) -> _Value:
    """The same without nan, which JSON has no word for."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
