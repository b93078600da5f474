"""Payload: how many bytes of WAL each byte of payload costs, from the enqueue to the finish.

Full-page images are told apart: how many there are depends on the last checkpoint, not on us. Each
payload is of random letters, so that no compression flatters the figures.
"""

from __future__ import annotations

import base64
import os
from contextlib import closing

from wherry.bench import handlers, worker
from wherry.bench.chart import Bars
from wherry.bench.children import Children
from wherry.bench.marks import Marks
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet

SIZES = {"100 B": 100, "10 kB": 10_000, "200 kB": 200_000}
PREDICTION = "10 kB: 1.2 bytes of WAL a byte of payload at most, 200 kB 1.1, 100 B about 15"
BATCH_BYTES = 4_000_000
CHART = Bars(
    (
        ("WAL/payload", "bytes of WAL a byte of payload"),
        ("server us", "server, us a task"),
        ("tasks/s drained", "tasks a second, drained"),
    ),
    logarithmic=("server us", "tasks/s drained"),
)
OPTIONS = (option("--megabytes", 40.0, "Payload of each size"),)


def one_run(place: Place, *, size: int, megabytes: float) -> dict[str, float]:
    """Enqueue and drain payloads of one size."""
    place.renew()
    handlers.app.move(place.dsn)
    tasks = max(20, min(20_000, int(megabytes * 1e6 / size)))
    step = max(1, min(1000, BATCH_BYTES // size))
    with closing(handlers.app), Marks.made(tasks) as marks:
        with Children() as children:
            worker.start(children, place, marks, process=0, until_empty=True)
            children.all[0].wait_until_ready()
            before = place.read()
            for first in range(0, tasks, step):
                handlers.carry.enqueue_many(
                    {"n": n, "text": _text(size)} for n in range(first, min(first + step, tasks))
                )
            enqueued = place.spent(before)
            before = place.read()
            children.all[0].go()
            children.results()
            drained = place.spent(before)
        marks.must_be_once(tasks)
        place.must_have_succeeded(tasks)
    at_enqueue = (enqueued.wal_bytes - enqueued.full_page_bytes) / tasks
    at_drain = (drained.wal_bytes - drained.full_page_bytes) / tasks
    full_pages = (enqueued.full_page_bytes + drained.full_page_bytes) / tasks
    return {
        "WAL/payload": (at_enqueue + at_drain) / size,
        "enqueue bytes": at_enqueue,
        "drain bytes": at_drain,
        "full pages": full_pages,
        "server us": (enqueued.server_cpu + drained.server_cpu) / tasks * 1e6,
        "commits/1000": (enqueued.commits + drained.commits) / tasks * 1000,
        "tasks/s drained": tasks / drained.seconds,
    }


def measure(place: Place, given: Given) -> Sheet:
    """Measure all sizes, interleaved."""
    sheet = Sheet(
        "payload", prediction=PREDICTION, machine=place.machine(), digits={"WAL/payload": 2}
    )
    for _ in range(given.runs):
        for name, size in SIZES.items():
            sheet.add(name, **one_run(place, size=size, megabytes=given.megabytes))
    return sheet


def _text(size: int) -> str:
    # The JSON around it has some twenty characters more.
    return base64.b64encode(os.urandom(size * 3 // 4)).decode()[:size]
