"""Each benchmark runs, tiny, and what it prints, keeps and draws are the same figures."""

from __future__ import annotations

import importlib
import json
import math
import statistics
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wherry.bench import BENCHMARKS, chart, horizon, idle, limit, seed
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet, percentiles
from wherry.errors import ConfigError

# All else is as the benchmark has it.
TINY: dict[str, dict[str, Any]] = {
    "limit": {"tasks": 2000},
    "enqueue": {"seconds": 0.2, "committers": [1, 2]},
    "drain": {"tasks": 1000, "processes": [1, 2], "settings": ["defaults"]},
    "latency": {"seconds": 0.5, "rates": [50.0]},
    "seed": {"seconds": 0.2, "loads": ["burst", "edge"]},
    "backlog": {"delayed": 500, "low": 500, "finished": 1000},
    "horizon": {"seconds": 1.5, "kinds": ["held"]},
    "payload": {"megabytes": 0.1},
    "idle": {"seconds": 0.2},
    "memory": {"tasks": 3000, "after": 1000},
}
# Whose rows are one schema's for some tasks that all have ended.
COUNTED = ("drain", "seed", "memory", "payload", "latency")


def given(name: str, runs: int) -> SimpleNamespace:
    module = importlib.import_module(BENCHMARKS[name].module)
    defaults = {str(option.name): option.default for option in module.OPTIONS}
    return SimpleNamespace(**{**defaults, **TINY[name]}, runs=runs)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_keeps_what_it_shows_and_draws_it(
    name: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "SETTLING_SECONDS", 0.3)
    monkeypatch.setattr(horizon, "WARM_UP_SECONDS", 0.5)
    module = importlib.import_module(BENCHMARKS[name].module)

    sheet = module.measure(place, given(name, runs=1))
    sheet.show()
    sheet.write(tmp_path / "figures.json")
    chart.draw(sheet, module.CHART, tmp_path / "figures.png")

    kept = json.loads((tmp_path / "figures.json").read_text())
    for variant, medians in kept["medians"].items():
        runs = [run for run in kept["runs"] if run["variant"] == variant]
        for column, median in medians.items():
            known = [run[column] for run in runs if run[column] is not None]
            assert median == (statistics.median(known) if known else None)
    for pair, ratio in kept["ratios"].items():
        variant, _, rest = pair.partition(" / ")
        other, _, column = rest.partition(", ") if name != "backlog" else rest.rpartition(", ")
        if column:
            one, base = kept["medians"][variant][column], kept["medians"][other][column]
            assert ratio == pytest.approx(one / base)
    assert (tmp_path / "figures.png").read_bytes().startswith(b"\x89PNG")
    if name in COUNTED:
        assert set(place.finished()) == {"succeeded"}


def test_slots_without_any_loss_take_as_long_as_their_work() -> None:
    in_a_row = seed.ideal([1.0] * (2 * seed.SLOTS), [0.0] * (2 * seed.SLOTS))
    one_late = seed.ideal([1.0, 1.0], [0.0, 5.0])

    assert in_a_row == 2.0
    assert one_late == 6.0


def test_percentiles_are_those_of_all_values() -> None:
    points = dict(percentiles([float(n) for n in range(1000)]))

    assert (points[0.0], points[50.0], points[99.0], points[99.9]) == (0, 500, 990, 999)


def test_what_cannot_be_told_is_neither_shown_nor_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = Sheet("x", prediction="p", machine={"cores": 2})
    for rate in (1.0, 3.0):
        sheet.add("ours", **{"tasks/s": rate, "server us": math.nan})

    sheet.show()
    chart.draw(sheet, limit.CHART, tmp_path / "x.svg")

    assert "server us" not in capsys.readouterr().out
    drawn = (tmp_path / "x.svg").read_text()
    assert "tasks a second" in drawn
    assert "server, us a task" not in drawn


def test_a_picture_of_another_form_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\.png or \.svg, which 'x\.pdf' is not"):
        chart.check(Path("x.pdf"))


def test_a_picture_without_its_library_is_refused_with_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(ConfigError, match=r"pip install 'wherry\[bench\]'"):
        chart.check(Path("x.png"))
