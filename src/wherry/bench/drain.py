"""Drain: how fast workers finish tasks that are already there, and what each costs both sides.

The clock runs from the first handler's start to the moment at which the database holds no
unfinished task; processes that still start up meanwhile count against us. Exactly once is counted
twice: by the database's finished rows and by the handlers' marks.
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any

from wherry.bench import handlers, limit, worker
from wherry.bench.chart import Bars
from wherry.bench.children import Children
from wherry.bench.errors import BenchmarkFailed
from wherry.bench.marks import Marks
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet

PREDICTION = (
    "tuned, one process, no-op: 0.6 of `limit lease`, the defaults half of that at least; two"
    " processes no slower than one; with 100 us burnt a task two processes 1.7 times one"
)
SETTINGS = {"defaults": worker.DEFAULTS, "tuned": worker.TUNED}
BATCH = 1000
CHART = Bars(
    (
        ("tasks/s", "tasks a second"),
        ("client us", "client, us a task"),
        ("server us", "server, us a task"),
        ("WAL bytes", "WAL, bytes a task"),
    )
)
OPTIONS = (
    option("--tasks", 300_000, "Tasks a run; a quarter of them where handlers burn"),
    option("--processes", (1, 2, 4), "How many worker processes, one after the other"),
    option("--handlers", ("nothing", "burn"), "What handlers do", among=("nothing", "burn")),
    option("--settings", tuple(SETTINGS), "How workers are set", among=tuple(SETTINGS)),
)


def fill(place: Place, tasks: int, *, handler: str = "nothing", **more: Any) -> None:
    """Enqueue tasks 0 to *tasks* - 1 through the library."""
    task_type = getattr(handlers, handler)
    handlers.app.move(place.dsn)
    for first in range(0, tasks, BATCH):
        numbers = range(first, min(tasks, first + BATCH))
        task_type.enqueue_many({"n": n, **more} for n in numbers)
    handlers.app.close()


def one_run(
    place: Place, *, tasks: int, processes: int, handler: str, settings: str
) -> dict[str, float]:
    """Fill, drain and count once."""
    place.renew()
    fill(place, tasks, handler=handler)
    place.query("vacuum analyze {schema}.live")
    with Marks.made(tasks) as marks:
        with Children() as children:
            for process in range(processes):
                worker.start(
                    children, place, marks, process=process, until_empty=True, **SETTINGS[settings]
                )
            for child in children.all:
                child.wait_until_ready()
            before = place.read()
            for child in children.all:
                child.go()
            give_up_at = monotonic() + 60 + tasks / 500
            while marks.entered() < tasks:
                if monotonic() > give_up_at:
                    raise BenchmarkFailed(f"{marks.entered()} of {tasks} tasks ran in time")
                sleep(0.005)
            ended = place.wait_until_drained()
            results = children.results()
        spent = place.spent(before)
        marks.must_be_once(tasks)
        place.must_have_succeeded(tasks)
        return {
            "tasks/s": tasks / (ended - marks.first(tasks)),
            "client us": sum(r["cpu"] for r in results) / tasks * 1e6,
            **spent.each(tasks),
            "memory MB": max(r["memory"] for r in results) / 2**20,
        }


def measure(place: Place, given: Given) -> Sheet:
    """Measure all variants and the anchors, interleaved."""
    sheet = Sheet(
        "drain",
        prediction=PREDICTION,
        machine=place.machine(),
        digits={"client us": 1, "server us": 1, "commits/1000": 1},
    )
    for _ in range(given.runs):
        limit.take(place, sheet, ["lease", "row"], tasks=min(given.tasks, limit.TASKS))
        for handler in given.handlers:
            # What burns a core for 100 us a task needs fewer of them for the same time.
            tasks = given.tasks if handler == "nothing" else max(1000, given.tasks // 4)
            for settings in given.settings:
                for processes in given.processes:
                    figures = one_run(
                        place,
                        tasks=tasks,
                        processes=processes,
                        handler=handler,
                        settings=settings,
                    )
                    sheet.add(_name(handler, settings, processes), **figures)
    _compare(sheet, given)
    return sheet


def _compare(sheet: Sheet, given: Given) -> None:
    one = given.processes[0]
    for handler in given.handlers:
        for settings in given.settings:
            name = _name(handler, settings, one)
            if handler == "nothing":
                for anchor in ("lease", "row"):
                    sheet.compare(name, f"limit {anchor}", "tasks/s")
            for more in given.processes[1:]:
                sheet.compare(_name(handler, settings, more), name, "tasks/s")
        if {"defaults", "tuned"} <= set(given.settings):
            sheet.compare(_name(handler, "defaults", one), _name(handler, "tuned", one), "tasks/s")


def _name(handler: str, settings: str, processes: int) -> str:
    return f"{handler} {settings} x{processes}"
