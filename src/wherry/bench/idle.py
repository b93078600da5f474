"""Idle: the statements a second of one worker that has nothing to do, listening and polling.

Commits are counted, which is what statements outside of transactions are. A session tells its
counts late but always at its end, so two workers are run, one longer than the other by what is to
be measured: starting and ending cancel out.
"""

from __future__ import annotations

from time import sleep

from wherry.bench import worker
from wherry.bench.chart import Bars
from wherry.bench.children import Children
from wherry.bench.marks import Marks
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet

SETTLING_SECONDS = 5.0
PREDICTION = "at most one statement a second listening, two to three polling"
CHART = Bars(
    (
        ("statements/s", "statements a second"),
        ("server CPU %", "server, % of a core"),
        ("client CPU %", "worker, % of a core"),
    )
)
OPTIONS = (option("--seconds", 30.0, "How long it idles"),)


def _counted(place: Place, *, seconds: float, listen: bool) -> tuple[float, float, float]:
    place.renew()
    with Marks.made(1) as marks:
        with Children() as children:
            before = place.read()
            worker.start(children, place, marks, process=0, listen=listen)
            children.begin()
            sleep(seconds)
            children.all[0].stop()
            [result] = children.results()
        # The sessions of the worker end with it, but not before it.
        sleep(0.5)
        spent = place.spent(before)
    return float(spent.commits), spent.server_cpu, result["cpu"]


def one_run(place: Place, *, seconds: float, listen: bool) -> dict[str, float]:
    """Measure one kind of waiting."""
    short = _counted(place, seconds=SETTLING_SECONDS, listen=listen)
    long = _counted(place, seconds=SETTLING_SECONDS + seconds, listen=listen)
    commits, server, client = (
        # What starting and ending vary by is nothing that idling cost.
        max(0.0, more - less) / seconds
        for more, less in zip(long, short, strict=True)
    )
    return {
        "statements/s": commits,
        "server CPU %": server * 100,
        "client CPU %": client * 100,
    }


def measure(place: Place, given: Given) -> Sheet:
    """Measure both kinds of waiting, interleaved."""
    columns = ("statements/s", "server CPU %", "client CPU %")
    sheet = Sheet(
        "idle",
        prediction=PREDICTION,
        machine=place.machine(),
        digits=dict.fromkeys(columns, 2),
    )
    for _ in range(given.runs):
        for name, listen in (("listening", True), ("polling", False)):
            sheet.add(name, **one_run(place, seconds=given.seconds, listen=listen))
    return sheet
