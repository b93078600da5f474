"""Horizon: full speed for a while, beside another session that holds a snapshot.

A producer keeps some thousands of tasks ready, a worker drains them. `held`: a REPEATABLE READ
transaction that has read once and then idles. `writing`: a forgotten transaction that has also
written. `enqueued`: one that has enqueued. `control`: none of these. Compared are the first and the
last sixth of the time: vacuum may remove nothing that died after the snapshot was taken, so whoever
walks dead rows gets slower and slower.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psycopg
from psycopg import sql

from wherry.bench import handlers, worker
from wherry.bench.chart import Lines
from wherry.bench.children import Children, Ready
from wherry.bench.claims import SCHEMA
from wherry.bench.marks import Marks
from wherry.bench.options import Given, option
from wherry.bench.place import Place
from wherry.bench.sheet import Sheet

MOST_A_SECOND = 150_000
BATCH = 1000
PREDICTION = (
    "the end is 0.9 of the beginning at least, whoever holds a snapshot or has written, and the"
    " server's CPU a task grows by a fifth at most: leases pass over what is dead. Where somebody"
    " has enqueued and left his transaction open it grows by more, and nothing is lost"
)
WARM_UP_SECONDS = 2.0
# A multiple of the six parts, of which the first and the last are compared.
SAMPLES = 30
CHART = Lines(
    (
        ("rate", "seconds", "tasks a second"),
        ("cpu", "seconds", "server, us a task"),
    )
)
KINDS = ("control", "held", "writing", "enqueued")
OPTIONS = (
    option("--seconds", 60.0, "How long each kind runs", least=1),
    option("--ahead", 5000, "How many tasks wait at a time"),
    option("--kinds", KINDS, "What another session does", among=KINDS),
)


def feed(
    ready: Ready, *, dsn: str, marks: str, tasks: int, seconds: float, ahead: int
) -> dict[str, Any]:
    """Keep *ahead* tasks waiting for *seconds*; tell how many were made."""
    seen = Marks(Path(marks), tasks)
    handlers.app.dsn = dsn
    handlers.app.migrate()
    ready()
    made, until = 0, monotonic() + seconds
    while monotonic() < until and made + BATCH <= tasks:
        if made - seen.entered() < ahead:
            handlers.nothing.enqueue_many([{"n": n} for n in range(made, made + BATCH)])
            made += BATCH
        else:
            sleep(0.005)
    handlers.app.close()
    return {"made": made}


@contextlib.contextmanager
def held(place: Place, kind: str) -> Generator[None]:
    """Have another session hold a snapshot, or forget a transaction that has done more."""
    with psycopg.connect(place.dsn) as connection:
        if kind != "control":
            connection.execute("set transaction isolation level repeatable read")
            connection.execute("select count(*) from pg_class")
            if kind == "writing":
                connection.execute("select pg_current_xact_id()")
            elif kind == "enqueued":
                enqueue = sql.SQL("select {}.enqueue('elsewhere', 'forgotten')")
                connection.execute(enqueue.format(sql.Identifier(SCHEMA)))
        yield
        connection.rollback()


def one_run(place: Place, sheet: Sheet, kind: str, *, seconds: float, ahead: int) -> None:
    """Run at full speed, and compare the beginning with the end."""
    place.renew()
    tasks = int((seconds + WARM_UP_SECONDS) * MOST_A_SECOND)
    samples: list[tuple[float, int, float]] = []

    def sample() -> None:
        samples.append((monotonic(), marks.entered(), place.server_cpu()))

    with Marks.made(tasks) as marks:
        with Children() as children, held(place, kind):
            worker.start(children, place, marks, process=0)
            feeder = children.start(
                "wherry.bench.horizon:feed",
                dsn=place.dsn, marks=str(marks.path), tasks=tasks, ahead=ahead,
                seconds=seconds + WARM_UP_SECONDS,
            )  # fmt: skip
            before = place.read()
            children.begin()
            sleep(WARM_UP_SECONDS)
            began = monotonic()
            for wanted in [seconds * n / SAMPLES for n in range(SAMPLES + 1)]:
                sleep(max(0.0, began + wanted - monotonic()))
                sample()
            made = feeder.result()["made"]
            place.wait_until_drained(within_seconds=300)
            children.all[0].stop()
            [[dead]] = place.query(
                "select n_dead_tup from pg_stat_user_tables where relid = '{schema}.live'::regclass"
            )
            [[size]] = place.query("select pg_total_relation_size('{schema}.live'::regclass)")
            children.all[0].result()
            spent = place.spent(before)
        marks.must_be_once(made)
        place.must_have_succeeded(made)
    part = SAMPLES // 6
    first, first_cpu = _between(samples[0], samples[part])
    last, last_cpu = _between(samples[-1 - part], samples[-1])
    sheet.add(
        kind,
        **{
            "tasks": made,
            "first/s": first,
            "last/s": last,
            "last/first": last / first if first else math.nan,
            "server us first": first_cpu,
            "server us last": last_cpu,
            "WAL bytes": spent.each(made)["WAL bytes"],
            "commits/1000": spent.each(made)["commits/1000"],
            "dead rows": dead,
            "live MB": size / 2**20,
        },
    )
    between = [
        (after[0] - samples[0][0], *_between(before, after)) for before, after in pairwise(samples)
    ]
    sheet.trace(kind, "rate", [(at, rate) for at, rate, _ in between])
    # While nothing ran nothing has a cost.
    sheet.trace(kind, "cpu", [(at, cpu) for at, rate, cpu in between if rate])


def measure(place: Place, given: Given) -> Sheet:
    """Measure all kinds, interleaved."""
    sheet = Sheet(
        "horizon",
        prediction=PREDICTION,
        machine=place.machine(),
        digits={"last/first": 2, "server us first": 1, "server us last": 1},
    )
    for _ in range(given.runs):
        for kind in given.kinds:
            one_run(place, sheet, kind, seconds=given.seconds, ahead=given.ahead)
    for kind in given.kinds:
        grown = sheet.median(kind, "server us last") / sheet.median(kind, "server us first")
        sheet.say(
            f"{kind}: the last sixth at {sheet.median(kind, 'last/first'):.2f} of the first,"
            f" at {grown:.2f} times the server's CPU a task"
        )
    return sheet


def _between(
    before: tuple[float, int, float], after: tuple[float, int, float]
) -> tuple[float, float]:
    """Tasks a second, and us of the server's CPU a task."""
    tasks = after[1] - before[1]
    return tasks / (after[0] - before[0]), (after[2] - before[2]) / max(tasks, 1) * 1e6
