"""Draws a sheet as one picture, PNG or SVG: what was predicted, on which machine, and every run.

A bar is a median and a dot on it one run, so that the spread is seen. matplotlib comes with the
extra `wherry[bench]` and is imported here only when a picture is asked for.
"""

# Of its keywords matplotlib does not say what they may be.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from wherry.bench.sheet import Sheet, told
from wherry.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMS = (".png", ".svg")
# Of people who see colours differently: Okabe and Ito's.
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
_GREY = "#555555"
# What others are compared with is paler.
_BASES = ("limit ", "bare ", "empty", "direct")
_PANEL_INCHES, _LABEL_INCHES, _ROW_INCHES = 3.3, 2.6, 0.3
_LINES_INCHES = (9.5, 4.6)
_LEAST_WIDE_INCHES = 7.0
_LETTERS_AN_INCH = 13


@dataclass(frozen=True)
class Bars:
    """Variants below one another, a panel for each of *columns*, which bring their axis' words.

    *logarithmic* ones are drawn as points, since a bar's length would mean nothing there.
    """

    columns: Sequence[tuple[str, str]]
    logarithmic: Sequence[str] = ()


@dataclass(frozen=True)
class Lines:
    """Curves, a panel for each kind of them: which kind, and what its two axes say."""

    panels: Sequence[tuple[str, str, str]]
    logarithmic_y: bool = False
    # Percentiles: the x axis shows how few are beyond, so that the last ones get room.
    tail: bool = False


Chart: TypeAlias = Bars | Lines


def check(path: Path) -> None:
    """See, before anything is measured, that a picture can be made. Raises ConfigError."""
    if path.suffix.lower() not in FORMS:
        raise ConfigError(f"a picture is {' or '.join(FORMS)}, which {path.name!r} is not")
    try:
        import matplotlib.figure  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise ConfigError(
            "a picture needs matplotlib, which the extra has: pip install 'wherry[bench]'"
        ) from error


def draw(sheet: Sheet, chart: Chart, path: Path) -> None:
    """Draw it to *path*, whose ending says in which form."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    plain: dict[Any, Any] = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": _GREY,
        "axes.axisbelow": True,
        "grid.color": "#dddddd",
        "svg.fonttype": "none",
        # The same figures make the same file.
        "svg.hashsalt": "wherry",
    }
    with mpl.rc_context(plain):
        figure = Figure(layout="constrained")
        if isinstance(chart, Bars):
            _bars(sheet, chart, figure)
        else:
            _lines(sheet, chart, figure)
        _words(sheet, figure)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(path, dpi=150, metadata=metadata)


def _words(sheet: Sheet, figure: Figure) -> None:
    wide = int(figure.get_figwidth() * _LETTERS_AN_INCH)
    title = f"wherry bench {sheet.name}"
    predicted = textwrap.fill(f"Predicted: {sheet.prediction}", wide)
    figure.suptitle(f"{title}\n{predicted}", x=0.01, ha="left", fontsize=9)
    machine = textwrap.fill(f"Machine: {told(sheet.machine)}", wide)
    figure.supxlabel(machine, x=0.01, ha="left", fontsize=8, color=_GREY)


def _bars(sheet: Sheet, chart: Bars, figure: Figure) -> None:
    columns = [
        (column, label)
        for column, label in chart.columns
        if any(sheet.known(variant, column) for variant in sheet.variants)
    ]
    wide = max(_LEAST_WIDE_INCHES, _LABEL_INCHES + _PANEL_INCHES * len(columns))
    figure.set_size_inches(wide, 1.9 + _ROW_INCHES * len(sheet.variants))
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for panel, (column, label) in zip(panels, columns, strict=True):
        _panel(sheet, panel, column, is_logarithmic=column in chart.logarithmic)
        panel.set_xlabel(label)
    panels[0].set_yticks(range(len(sheet.variants)), sheet.variants)
    panels[0].invert_yaxis()


def _panel(sheet: Sheet, panel: Axes, column: str, *, is_logarithmic: bool) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    most = 0.0
    for row, variant in enumerate(sheet.variants):
        runs = sheet.known(variant, column)
        if not runs:
            continue
        median = sheet.median(variant, column)
        color = _COLORS[0] if not variant.startswith(_BASES) else "#999999"
        if is_logarithmic:
            panel.plot([min(runs), max(runs)], [row, row], color=color, linewidth=2, alpha=0.5)
            panel.plot([median], [row], marker="o", markersize=7, color=color)
        else:
            panel.barh(row, median, height=0.62, color=color, alpha=0.75)
        panel.plot(runs, [row] * len(runs), "o", markersize=3.2, color="black", alpha=0.65)
        panel.annotate(
            sheet.shown(column, median),
            (max(runs), row),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
        most = max(most, *runs)
    panel.grid(visible=True, axis="x")
    panel.tick_params(axis="y", length=0)
    if is_logarithmic:
        panel.set_xscale("log")
        low, high = panel.get_xlim()
        panel.set_xlim(low / 1.3, high * 4)
        panel.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 100 else (1.0, 3.0)))
        panel.xaxis.set_major_formatter("{x:,g}")
        panel.xaxis.set_minor_locator(NullLocator())
    else:
        # Room for the words behind the longest one.
        panel.set_xlim(0, most * 1.25 or 1)
        panel.locator_params(axis="x", nbins=5)
        panel.xaxis.set_major_formatter("{x:,g}")


def _lines(sheet: Sheet, chart: Lines, figure: Figure) -> None:
    from matplotlib.ticker import LogLocator

    kinds = [panel for panel in chart.panels if any(c.kind == panel[0] for c in sheet.curves)]
    figure.set_size_inches(_LINES_INCHES[0], _LINES_INCHES[1] * (1 if len(kinds) < 2 else 1.5))
    panels = figure.subplots(len(kinds), 1, sharex=True, squeeze=False)[:, 0]
    variants = list(dict.fromkeys(curve.variant for curve in sheet.curves))
    for panel, (kind, x, y) in zip(panels, kinds, strict=True):
        labelled = set[str]()
        for curve in sheet.curves:
            if curve.kind != kind:
                continue
            color = _COLORS[variants.index(curve.variant) % len(_COLORS)]
            label = None if curve.variant in labelled else curve.variant
            labelled.add(curve.variant)
            xs = [100 - at for at in curve.xs] if chart.tail else curve.xs
            panel.plot(xs, curve.ys, color=color, label=label, linewidth=1.6, alpha=0.85)
        panel.set_ylabel(y)
        panel.grid(visible=True)
        if chart.logarithmic_y:
            panel.set_yscale("log")
            panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            panel.yaxis.set_major_formatter("{x:,g}")
            panel.minorticks_off()
        else:
            panel.set_ylim(0, panel.get_ylim()[1] * 1.05)
            panel.yaxis.set_major_formatter("{x:,g}")
        if panel is panels[-1]:
            panel.set_xlabel(x)
            panel.xaxis.set_major_formatter("{x:,g}")
    if chart.tail:
        _show_the_tail(panels, least=min(100 - max(curve.xs) for curve in sheet.curves))
    panels[0].legend(frameon=False, loc="best")


def _show_the_tail(panels: Iterable[Axes], *, least: float) -> None:
    ticks = [100.0, 75.0, 50.0, 25.0, 10.0, 5.0, 1.0, 0.1]
    for panel in panels:
        panel.set_xscale("log")
        panel.set_xlim(100, min(1.0, least))
        shown = [tick for tick in ticks if tick >= min(1.0, least)]
        panel.set_xticks(shown, ["min" if tick == 100 else f"p{100 - tick:g}" for tick in shown])
        panel.minorticks_off()
