"""`wherry bench`: measure on this machine and database what Wherry does, and what that costs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from wherry.bench import BENCHMARKS, Benchmark
from wherry.cli import values
from wherry.cli.output import is_terminal, print_error
from wherry.cli.textual import refuse_others


class _Measured(click.Command):
    """One benchmark; its own options are read from its module when somebody asks for them."""

    def __init__(self, name: str, benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        super().__init__(
            name,
            help=benchmark.text,
            callback=self._run,
            params=_for_every(benchmark),
        )
        self._is_whole = False

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of all benchmarks and this one's own."""
        if not self._is_whole:
            own = self._module().OPTIONS
            refuse_others(own)
            self.params[:0] = own
            self._is_whole = True
        return super().get_params(ctx)

    def _module(self) -> Any:
        return importlib.import_module(self._benchmark.module)

    def _run(
        self,
        /,
        json: Path | None,
        plot: Path | None,
        dsn: str | None,
        yes: bool,
        **given: Any,
    ) -> None:
        from wherry.bench import chart
        from wherry.bench.found import found

        # Before minutes of measuring, not after them.
        for path in (json, plot):
            if path is not None and not path.parent.is_dir():
                raise click.UsageError(f"there is no folder {path.parent} to write {path.name} to")
        if plot is not None:
            chart.check(plot)

        def consent(what: str) -> None:
            if yes:
                return
            if not is_terminal():
                raise click.UsageError(f"{what} Nobody is there to be asked: consent with --yes")
            print_error(what)
            click.confirm("Go on?", abort=True, err=True)

        with found(dsn, consent=consent, say=print_error) as place:
            for sentence in place.blind_to():
                print_error(f"left out: {sentence}")
            sheet = self._module().measure(place, SimpleNamespace(**given))
        sheet.show()
        if json is not None:
            sheet.write(json)
        if plot is not None:
            chart.draw(sheet, self._module().CHART, plot)


def _for_every(benchmark: Benchmark) -> list[click.Parameter]:
    return [
        click.Option(
            ["--runs"],
            type=values.Whole(1),
            metavar="N",
            default=benchmark.runs,
            help=f"How often; medians are shown (default: {benchmark.runs}).",
        ),
        click.Option(
            ["--json"],
            type=click.Path(dir_okay=False, writable=True, path_type=Path),
            metavar="FILE",
            help="Write all figures of all runs to this file.",
        ),
        click.Option(
            ["--plot"],
            type=click.Path(dir_okay=False, writable=True, path_type=Path),
            metavar="FILE",
            help="Draw the figures to this file, .png or .svg; needs wherry[bench].",
        ),
        click.Option(
            ["--dsn"],
            metavar="DSN",
            help="Database to measure on (default: $WHERRY_DSN, or else an embedded PostgreSQL"
            " of the benchmarks' own).",
        ),
        click.Option(["--yes"], is_flag=True, help="Do not ask before the load."),
    ]


def bench_of(benchmarks: Mapping[str, Benchmark]) -> click.Group:
    """Return the verb `bench` with one verb below it for each benchmark."""
    commands: dict[str, click.Command] = {
        name: _Measured(name, each) for name, each in benchmarks.items()
    }
    return click.Group(
        "bench",
        commands=commands,
        help="Measure what Wherry does on this machine and database, and what that costs.\n\n"
        "Each benchmark predicts first, and counts at both ends that every task ran once.",
    )


bench = bench_of(BENCHMARKS)
