"""Benchmarks count what they measure, and stop with a sentence where tasks were lost or doubled."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from time import thread_time_ns

import click
import pytest

from bench.__main__ import ALL
from wherry.bench import drain, enqueue, handlers, limit
from wherry.bench.errors import BenchmarkFailed
from wherry.bench.marks import Marks
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet


@pytest.fixture
def marks() -> Iterator[Marks]:
    with Marks.made(10) as made:
        yield made


@pytest.mark.parametrize("name", ALL)
def test_each_benchmark_predicts_and_has_defaults_for_its_options(name: str) -> None:
    module = importlib.import_module(ALL[name].module)

    given = click.Command(name, params=list(module.OPTIONS)).make_context(name, []).params

    assert given
    assert None not in given.values()
    assert module.PREDICTION


def test_a_drain_is_counted_in_the_database_and_by_handlers_of_all_processes(place: Place) -> None:
    figures = drain.one_run(place, tasks=500, processes=2, handler="nothing", settings="defaults")

    assert place.finished() == {"succeeded": 500}
    assert figures["tasks/s"] > 0
    [[version]] = place.query("select current_setting('server_version_num')::integer")
    if version >= 150000:
        assert figures["WAL bytes"] > 100
        assert figures["commits/1000"] > 0
    else:
        # PostgreSQL 14 tells nothing of the one, and of the other half a second later.
        assert math.isnan(figures["WAL bytes"])
        assert figures["commits/1000"] >= 0


def test_committers_beside_a_worker_are_counted_at_both_ends(place: Place) -> None:
    figures = enqueue.one_run(place, kind="one", committers=2, seconds=0.3, workers=1)

    assert figures["tasks/s"] > 0
    [[stored]] = place.query("select count(*) from {schema}.finished")
    assert stored > 2


@pytest.mark.parametrize("name", limit.ANCHORS)
def test_anchors_leave_nothing_behind(place: Place, name: str) -> None:
    figures = limit.once(place, name, tasks=2000)

    assert figures["tasks/s"] > 0
    assert not place.query("select from pg_namespace where nspname = 'wherry_bench_limit'")


def test_a_lost_task_stops_the_benchmark(place: Place) -> None:
    place.renew()
    drain.fill(place, 3)
    place.query("delete from {schema}.live")

    with pytest.raises(BenchmarkFailed, match="lost or doubled"):
        place.must_have_succeeded(3)


def test_a_task_that_is_left_stops_the_benchmark(place: Place) -> None:
    place.renew()
    drain.fill(place, 1)

    with pytest.raises(BenchmarkFailed, match="not drained within 0.05 s"):
        place.wait_until_drained(within_seconds=0.05)


def test_a_task_that_ran_twice_is_noticed(marks: Marks) -> None:
    for task in (0, 1, 1):
        marks.hit(task)

    with pytest.raises(BenchmarkFailed, match="1 of them ran once, 3 handler runs"):
        marks.must_be_once(2)


def test_marks_of_two_processes_add_up(marks: Marks) -> None:
    other = Marks(marks.path, marks.tasks, process=1)

    marks.hit(0)
    other.hit(1)

    marks.must_be_once(2)
    assert 0 < marks.began(0) <= marks.began(1)
    assert marks.first(10) == marks.began(0)


def test_a_sheet_writes_medians_and_all_runs(tmp_path: Path) -> None:
    sheet = Sheet("x", prediction="p", machine={"cores": 2})
    for rate in (1.0, 9.0, 2.0):
        sheet.add("ours", rate=rate, strange=math.nan)
    sheet.add("theirs", rate=4.0)

    sheet.show()
    sheet.write(tmp_path / "x.json")

    written = json.loads((tmp_path / "x.json").read_text())
    assert written["medians"]["ours"] == {"rate": 2.0, "strange": None}
    assert len(written["runs"]) == 4
    assert sheet.ratio("ours", "theirs", "rate") == 0.5
    assert math.isnan(sheet.ratio("ours", "nobody", "rate"))


def test_burning_takes_a_hundred_microseconds_of_the_threads_own_time(marks: Marks) -> None:
    handlers.leave_marks(marks)
    coroutine = handlers.burn(n=0)

    began = thread_time_ns()
    with pytest.raises(StopIteration):
        coroutine.send(None)

    assert thread_time_ns() - began >= handlers.BURNT_NS
