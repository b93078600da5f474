"""The seed benchmark: 20 slots, handlers of 50 to 200 ms; what can be had, and what was had.

A slot is busy for 125 ms on average, so 20 slots finish 160 tasks a second and no more.
Three loads:

    all there   everything is enqueued before the worker starts
    edge        a steady 0.95 of what the slots can do: queues must not grow
    burst       many times that at once, beside the running worker: nothing may be lost
"""

from __future__ import annotations

import random
import statistics
from time import monotonic, sleep

from wherry.bench import handlers, worker
from wherry.bench.children import Children
from wherry.bench.marks import Marks
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet

SLOTS = 20
SHORTEST, LONGEST = 0.050, 0.200
EDGE = 0.95
IDEAL = SLOTS / ((SHORTEST + LONGEST) / 2)
PREDICTION = (
    f"{SLOTS} slots / {(SHORTEST + LONGEST) / 2:.3f} s = {IDEAL:.0f} tasks/s; at least 0.98 of"
    " it, of the burst too; at the edge half of the tasks start within 20 ms; nothing lost"
)
OPTIONS = (option("--seconds", 10.0, "How long each load lasts"),)


def times(n: int, seed: int) -> list[float]:
    """How long each of *n* handlers takes: the same for the same seed."""
    chance = random.Random(seed)
    return [chance.uniform(SHORTEST, LONGEST) for _ in range(n)]


def one_run(place: Place, load: str, *, n: int, seed: int) -> dict[str, float]:
    """Run one load, and ask the database and the marks what happened."""
    place.renew()
    handlers.app.move(place.dsn)
    seconds = times(n, seed)
    calls = [{"n": i, "seconds": s} for i, s in enumerate(seconds)]
    marks = Marks.made(n)
    sent = [0.0] * n
    try:
        with Children() as children:
            worker.start(children, place, marks, process=0, concurrency=SLOTS)
            [child] = children.all
            child.wait_until_ready()
            if load == "all there":
                handlers.sleep.enqueue_many(calls)
                child.go()
            else:
                child.go()
                # It is idle and waiting by then.
                sleep(1.5)
                began = monotonic()
                if load == "edge":
                    for i, each in enumerate(seconds):
                        sleep(max(0.0, began + i / (EDGE * IDEAL) - monotonic()))
                        sent[i] = monotonic()
                        handlers.sleep.enqueue(n=i, seconds=each)
                else:
                    sent = [began] * n
                    handlers.sleep.enqueue_many(calls)
            place.wait_until_drained(within_seconds=60 + 2 * n / IDEAL)
            child.stop()
            children.results()
        marks.must_be_once(n)
        place.must_have_succeeded(n)
        [[took]] = place.query(
            "select extract(epoch from max(finished_at) - min(leased_at)) from {schema}.finished"
        )
    finally:
        marks.remove()
        handlers.app.close()
    rate = n / float(took)
    possible = SLOTS / statistics.mean(seconds)
    figures = {"tasks/s": rate, "possible": possible, "of possible": rate / possible}
    if load == "edge":
        waits = sorted((marks.began(i) - sent[i]) * 1000 for i in range(n))
        figures |= {"wait p50 ms": waits[n // 2], "wait p99 ms": waits[n * 99 // 100]}
    return figures


def measure(place: Place, given: Given) -> Sheet:
    """Measure the three loads, interleaved."""
    sheet = Sheet(
        "seed",
        prediction=PREDICTION,
        machine=place.machine(),
        digits={
            "tasks/s": 1, "possible": 1, "of possible": 3, "wait p50 ms": 1, "wait p99 ms": 1,
        },
    )  # fmt: skip
    n = round(given.seconds * IDEAL)
    for run in range(given.runs):
        for load in ("all there", "edge", "burst"):
            sheet.add(load, **one_run(place, load, n=n, seed=run))
    sheet.say(
        f"every one of {n} tasks a run is in the database once, and its handler ran once;"
        f" the burst is {n} tasks in one call, {given.seconds:g} s of work"
    )
    return sheet
