"""Latency at steady rates: from before the enqueue to the handler's start, and to the task's end.

One process enqueues, an idle worker of its own process handles; both read the machine's monotonic
clock. The enqueue's own commit is part of it. `tx` holds each enqueue's transaction open for 10 ms
before it commits, as an application would: its waits are counted from the commit's call.
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from time import monotonic, sleep, time

import psycopg

from wherry.bench import handlers, worker
from wherry.bench.chart import Lines
from wherry.bench.children import Children
from wherry.bench.marks import Marks
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet, percentiles

OPEN_SECONDS = 0.010
# For so many times what was asked for it may go on.
LATE = 1.5
PREDICTION = (
    "at 50/s p50 under 3 ms and p99 under 15 ms to the start, two ms more to the end; 500/s alike;"
    " with a transaction around each enqueue the same from its commit on"
)
CHART = Lines(
    (
        ("start", "percentile of tasks", "ms to the handler's start"),
        ("done", "percentile of tasks", "ms to the task's end"),
    ),
    logarithmic_y=True,
    tail=True,
)
OPTIONS = (
    option("--seconds", 10.0, "How long each rate lasts"),
    option("--rates", (50.0, 500.0), "Tasks a second, one after the other"),
)


def one_run(
    place: Place, sheet: Sheet, *, rate: float, seconds: float, in_transaction: bool
) -> None:
    """Enqueue at a steady rate beside an idle worker; add the percentiles in ms."""
    place.renew()
    handlers.app.move(place.dsn)
    n = max(1, int(rate * seconds))
    sent, commits, ids = [0.0] * n, [0.0] * n, [0] * n
    with closing(handlers.app), Marks.made(n) as marks:
        with Children() as children, psycopg.connect(place.dsn) as own:
            worker.start(children, place, marks, process=0)
            children.begin()
            # It is idle, and waits for a wake-up, by then.
            sleep(2.0)
            before = place.read()
            # The clocks of database and marks are both this machine's.
            skew = time() - monotonic()
            began = monotonic()
            for i in range(n):
                if monotonic() - began > LATE * seconds:
                    # This producer cannot keep up: what it did is measured all the same.
                    n = i
                    break
                sleep(max(0.0, began + i / rate - monotonic()))
                if in_transaction:
                    ids[i] = handlers.nothing.using(tx=own).enqueue(n=i).id
                    sleep(OPEN_SECONDS)
                    sent[i] = monotonic()
                    own.commit()
                else:
                    sent[i] = monotonic()
                    ids[i] = handlers.nothing.enqueue(n=i).id
                commits[i] = monotonic() - sent[i]
            took = monotonic() - began
            place.wait_until_drained()
            children.all[0].stop()
            children.results()
            spent = place.spent(before)
        marks.must_be_once(n)
        place.must_have_succeeded(n)
        ends = dict(place.query("select id, finished_at from {schema}.finished"))
    starts = sorted((marks.began(i) - sent[i]) * 1000 for i in range(n))
    dones = sorted((_seconds(ends[ids[i]]) - skew - sent[i]) * 1000 for i in range(n))
    enqueues = sorted(commits[:n])
    name = f"{rate:g}/s tx" if in_transaction else f"{rate:g}/s"
    figures = {
        "rate/s": n / took,
        "commit p50": enqueues[n // 2] * 1000,
        "start p50": starts[n // 2],
        "start p95": starts[n * 95 // 100],
        "start p99": starts[n * 99 // 100],
        "done p50": dones[n // 2],
        "done p99": dones[n * 99 // 100],
    }
    sheet.add(name, **figures, **spent.each(n))
    for kind, values in (("start", starts), ("done", dones)):
        sheet.trace(name, kind, percentiles(values))


def measure(place: Place, given: Given) -> Sheet:
    """Measure all rates, interleaved; the transaction at the first rate only."""
    columns = ["commit p50", "start p50", "start p95", "start p99", "done p50", "done p99"]
    sheet = Sheet(
        "latency",
        prediction=PREDICTION,
        machine=place.machine(),
        digits=dict.fromkeys(columns, 2),
    )
    for _ in range(given.runs):
        for rate in given.rates:
            one_run(place, sheet, rate=rate, seconds=given.seconds, in_transaction=False)
        first = given.rates[0]
        one_run(place, sheet, rate=first, seconds=given.seconds, in_transaction=True)
    sheet.say("milliseconds; `done` is the time of the report's statement, its commit follows")
    return sheet


def _seconds(at: datetime) -> float:
    return at.astimezone(UTC).timestamp()
