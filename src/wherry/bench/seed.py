"""The seed benchmark: 20 slots, handlers of 50 to 200 ms; what can be had, and what was had.

A slot is busy for 125 ms on average, so 20 slots finish 160 tasks a second and no more. Loads:

    all there   everything is enqueued before the worker starts
    below       a steady half of what the slots can do
    edge        a steady 0.95 of it: queues must not grow
    burst       as fast as eight callers get it in, many times what the slots can do

Each through the library, and through `POST /api/v1/tasks` of a `wherry server` process. `ideal s`
is how long slots that lose no time between tasks take for the same tasks that come at the same
moments; the last ones leave some of them without work, which no queue can help.
"""

from __future__ import annotations

import heapq
import importlib.util
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from time import monotonic, sleep

from wherry.bench import handlers, worker
from wherry.bench.chart import Bars
from wherry.bench.children import Children
from wherry.bench.marks import Marks
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.server_process import Http, Served
from wherry.bench.sheet import Sheet
from wherry.errors import ConfigError

SLOTS = 20
SHORTEST, LONGEST = 0.050, 0.200
IDEAL = SLOTS / ((SHORTEST + LONGEST) / 2)
# Of what the slots can do, how much is offered a second; the others are offered at once.
STEADY = {"below": 0.5, "edge": 0.95}
LOADS = ("all there", *STEADY, "burst")
WAYS = ("library", "http")
CALLERS = 8
PREDICTION = (
    f"{SLOTS} slots / {(SHORTEST + LONGEST) / 2:.3f} s = {IDEAL:.0f} tasks/s; at least 0.98 of"
    " the ideal for each load and way; below it half of the tasks start within 5 ms, at the edge"
    " within 20 ms; nothing lost"
)
CHART = Bars(
    (
        ("of ideal", "ideal time / time"),
        ("wait p50 ms", "wait, p50, ms"),
        ("wait p99 ms", "wait, p99, ms"),
        ("server us", "PostgreSQL, us a task"),
    )
)
OPTIONS = (
    option("--seconds", 10.0, "How long each load lasts"),
    option("--loads", LOADS, "Which loads", among=LOADS),
    option("--ways", WAYS, "By which way tasks come", among=WAYS),
)
Send = Callable[[int, float], None]


def times(n: int, seed: int) -> list[float]:
    """How long each of *n* handlers takes: the same for the same seed."""
    chance = random.Random(seed)
    return [chance.uniform(SHORTEST, LONGEST) for _ in range(n)]


def ideal(seconds: Sequence[float], arrivals: Sequence[float]) -> float:
    """How long slots that lose no time are at it, from the first arrival to the last end."""
    free = [0.0] * SLOTS
    for arrival, each in zip(arrivals, seconds, strict=True):
        heapq.heapreplace(free, max(free[0], arrival) + each)
    return max(free) - arrivals[0]


def one_run(place: Place, load: str, *, way: str, n: int, seed: int) -> dict[str, float]:
    """Run one load, and ask the database and the marks what happened."""
    place.renew()
    handlers.app.move(place.dsn)
    seconds = times(n, seed)
    with closing(handlers.app), Marks.made(n) as marks:
        with ExitStack() as stack, Children() as children:
            served = stack.enter_context(Served(place.dsn)) if way == "http" else None
            worker.start(children, place, marks, process=0, concurrency=SLOTS)
            [child] = children.all
            child.wait_until_ready()
            before = place.read()
            if load != "all there":
                child.go()
                # It is idle and waiting by then.
                sleep(1.5)
            sent = _offer(served, seconds, rate=STEADY.get(load, 0.0) * IDEAL)
            if load == "all there":
                child.go()
            place.wait_until_drained(within_seconds=60 + 2 * n / IDEAL)
            child.stop()
            children.results()
            spent = place.spent(before)
        marks.must_be_once(n)
        place.must_have_succeeded(n)
        [[since_start, since_first]] = place.query(
            "select extract(epoch from max(finished_at) - min(leased_at)),"
            " extract(epoch from max(finished_at) - min(created_at)) from {schema}.finished"
        )
    began = [marks.began(i) for i in range(n)]
    # Where all were there before, the worker's start is when they came.
    came = [min(began)] * n if load == "all there" else sent
    order = sorted(range(n), key=came.__getitem__)
    took = float(since_start if load == "all there" else since_first)
    could = ideal([seconds[i] for i in order], [came[i] for i in order])
    waits = sorted((b - s) * 1000 for b, s in zip(began, came, strict=True))
    return {
        "tasks/s": n / took,
        "ideal s": could,
        "of ideal": could / took,
        "offered/s": n / (max(sent) - min(sent)),
        "wait p50 ms": waits[n // 2] if load in STEADY else float("nan"),
        "wait p99 ms": waits[n * 99 // 100] if load in STEADY else float("nan"),
        **spent.each(n),
    }


def _offer(served: Served | None, seconds: Sequence[float], *, rate: float) -> list[float]:
    """Send all tasks, steadily or, at rate 0, by all callers at once; tell when each was sent."""
    sent = [0.0] * len(seconds)

    def call(first: int, step: int) -> None:
        send, close = _sender(served)
        began = monotonic()
        for i in range(first, len(seconds), step):
            if rate:
                sleep(max(0.0, began + i / rate - monotonic()))
            sent[i] = monotonic()
            send(i, seconds[i])
        close()

    callers = 1 if rate else CALLERS
    with ThreadPoolExecutor(callers) as pool:
        for calling in [pool.submit(call, first, callers) for first in range(callers)]:
            calling.result()
    return sent


def _sender(served: Served | None) -> tuple[Send, Callable[[], None]]:
    if served is None:

        def enqueue(n: int, seconds: float) -> None:
            handlers.sleep.enqueue(n=n, seconds=seconds)

        # The App's pool is closed with it.
        return enqueue, lambda: None
    http = Http(served.http)

    def post(n: int, seconds: float) -> None:
        payload = {"n": n, "seconds": seconds}
        http.post(
            "/tasks", {"type": handlers.sleep.name, "queue": handlers.QUEUE, "payload": payload}
        )

    return post, http.close


def measure(place: Place, given: Given) -> Sheet:
    """Measure all loads each way, interleaved. Raises ConfigError without the extra `server`."""
    if "http" in given.ways and importlib.util.find_spec("starlette") is None:
        raise ConfigError(
            "the server is not installed: pip install 'wherry[server]', or --ways library"
        )
    sheet = Sheet(
        "seed",
        prediction=PREDICTION,
        machine=place.machine(),
        digits={
            **dict.fromkeys(("tasks/s", "wait p50 ms", "wait p99 ms"), 1),
            "ideal s": 2,
            "of ideal": 3,
        },
    )
    n = max(SLOTS, round(given.seconds * IDEAL))
    for run in range(given.runs):
        for load in given.loads:
            for way in given.ways:
                sheet.add(f"{load}, {way}", **one_run(place, load, way=way, n=n, seed=run))
    sheet.say(
        f"every one of {n} tasks a run is in the database once, and its handler ran once;"
        f" a burst is {n} tasks, {given.seconds:g} s of work"
    )
    return sheet
