"""From an enqueue, through a server or not, to the handler's start in a remote worker.

All processes read this machine's monotonic clock. The enqueue's own call is part of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic, sleep, time

from wherry.bench import worker
from wherry.bench.children import Children
from wherry.bench.marks import Marks
from wherry.bench.place import Place
from wherry.bench.server_process import Served, enqueuing

_IDLE_AFTER_SECONDS = 3.0


def one_run(
    place: Place, *, way: str, working: str, rate: float, seconds: float
) -> dict[str, float]:
    """Enqueue one *way* at a steady rate, with a worker that works the other: percentiles in ms."""
    place.renew()
    n = int(rate * seconds)
    sent, answered = [0.0] * n, [0.0] * n
    with Marks.made(n) as marks:
        with Served(place.dsn) as served, Children() as children:
            children.start(
                "wherry.bench.worker:work",
                dsn=served.to(working, place.dsn),
                marks=str(marks.path),
                tasks=n,
                process=0,
                **worker.DEFAULTS,
            )
            children.begin()
            enqueue, close = enqueuing(way, served.to(way, place.dsn), batch=False)
            # Until the worker is idle, and waits.
            sleep(_IDLE_AFTER_SECONDS)
            skew = time() - monotonic()
            began = monotonic()
            for i in range(n):
                sleep(max(0.0, began + i / rate - monotonic()))
                sent[i] = monotonic()
                enqueue([i])
                answered[i] = monotonic() - sent[i]
            took = monotonic() - began
            place.wait_until_drained()
            children.all[0].stop()
            children.results()
            close()
        marks.must_be_once(n)
        place.must_have_succeeded(n)
        ends = dict(
            place.query(
                "select (payload::jsonb ->> 'n')::integer, finished_at from {schema}.finished"
            )
        )
    starts = sorted((marks.began(i) - sent[i]) * 1000 for i in range(n))
    dones = sorted((_seconds(ends[i]) - skew - sent[i]) * 1000 for i in range(n))
    answered.sort()
    return {
        "rate/s": n / took,
        "call p50": answered[n // 2] * 1000,
        "start p50": starts[n // 2],
        "start p95": starts[n * 95 // 100],
        "start p99": starts[n * 99 // 100],
        "done p50": dones[n // 2],
    }


def _seconds(at: datetime) -> float:
    return at.astimezone(UTC).timestamp()
